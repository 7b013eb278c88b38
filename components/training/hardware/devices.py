"""Devices of a training: every replica of the model gets a part of each batch, and all make the same update.

    batch ─┬─ worker 0 ─┬─ replica 0 ─► loss x its share of the records ─► gradients ─┐
           │            └─ replica 1 ─► …                                            ─┼─► sum ─► the same update on all
           └─ worker 1 ─── …                                                         ─┘

The weights make the sum equal to the gradient of the whole batch, however its records are divided. A replica without
records, because the batch is small or its worker has read all of its own, computes one record with weight 0, which no
metric counts: convolutions on CPUs return wrong shapes for no records (TensorFlow 2.16), and every replica must take
part in every sum. With one replica nothing of this exists, and a step is Keras's own.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from components.input_pipeline import Worker
from components.training.hardware import replica
from components.training.hardware.cluster import Cluster
from components.training.hardware.shares import Batch, Shares, rows_of

Array = np.ndarray[Any, Any]
Step = Callable[[Any], Mapping[str, Any]]  # a batch to logs by name
_SUM, _MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
_ALONE = Worker()


@dataclass(frozen=True)
class Devices:
    """Where a model is trained."""

    names: tuple[str, ...]  # of this worker's devices
    strategy: tf.distribute.Strategy | None = None  # with several replicas
    worker: Worker = _ALONE
    placed: bool = False  # name the device: TensorFlow itself would choose another one

    @property
    def replicas(self) -> int:
        """Number of replicas of the model, over all workers."""
        return len(self.names) * self.worker.count

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes what training writes."""
        return self.worker.index == 0

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Places variables and steps on the devices."""
        with contextlib.ExitStack() as stack:
            if self.strategy:
                stack.enter_context(self.strategy.scope())
            elif self.placed:
                stack.enter_context(tf.device(self.names[0]))
            yield

    def note(self, batch: Batch) -> str:
        """Returns how batches and learning rate follow from the devices, for the user."""
        scale = f"; batch and learning rate x {batch.scale}" if batch.scale > 1 else ""
        workers = f"{self.worker.count} workers, each with " if self.worker.count > 1 else ""
        where = workers + ", ".join(self.names)
        return f"{self.replicas} devices ({where}); batches of {batch.size:,}, {batch.replica:,} per device{scale}"

    @property
    def shares(self) -> Shares:
        """How workers and replicas share the records."""
        return Shares(self.worker, self.replicas)

    def to_dict(self) -> dict[str, Any]:
        """Returns what the history says about the devices."""
        return {"names": list(self.names), "workers": self.worker.count, "replicas": self.replicas}

    # ---- the model

    def replicate(self, model: keras.Model) -> keras.Model:
        """Returns the model, or a copy of it on all replicas."""
        if self.strategy is None:
            return model
        copy = keras.models.clone_model(model)
        for variable, value in zip(copy.variables, model.variables, strict=True):
            variable.assign(value.numpy())
        return copy

    def prepare(self, model: keras.Model, spec: Any) -> None:
        """Creates all variables of a compiled model, and lets its layers know that there are other replicas."""
        model.optimizer.build(model.trainable_variables)
        if self.strategy is None:
            return
        # As Keras does under a strategy, where a step cannot create variables; there is no public name for it.
        model._symbolic_build(data_batch=spec[0])  # noqa: SLF001
        scaled = model.optimizer.scale_loss  # called by Keras's step; with float16 it does more
        model.optimizer.scale_loss = lambda loss: replica.weighted(scaled(loss))
        for layer in model._flatten_layers():  # noqa: SLF001
            if isinstance(layer, keras.layers.BatchNormalization):
                layer._moments = partial(replica.layer_moments, layer._moments, layer)  # noqa: SLF001 - over all replicas
            for generator in layer._seed_generators:  # noqa: SLF001
                generator.next = partial(
                    replica.next_seed, generator.next
                )  # otherwise all replicas drop the same units

    def step(self, step: Step, model: keras.Model, records: tf.Variable, *, own: bool) -> Step:
        """Returns a step that also counts the records; with several replicas, one that runs on all of them.

        Args:
            step: what to do with a batch.
            model: what it trains or evaluates.
            records: the counter.
            own: it is the user's: its logs are means over the records of all replicas; its loss, which Keras divides
                by their number, is the sum, as its gradients are.
                Keras's logs are metrics, which `logs` returns.
        """
        strategy = self.strategy

        def counted(batch: Any) -> Mapping[str, Any]:
            records.assign_add(rows_of(batch))
            return step(batch)

        def replicated(element: Any) -> Mapping[str, Any]:
            logs = strategy.run(partial(self._replica_step, step, model, records), element)  # type: ignore[union-attr]
            how = {name: _SUM if name == "loss" else _MEAN for name in logs if own}
            return {name: strategy.reduce(each, logs[name], None) for name, each in how.items()}  # type: ignore[union-attr]

        chosen = replicated if strategy else counted
        return chosen if own else tf.autograph.experimental.do_not_convert(chosen)

    def _replica_step(self, step: Step, model: keras.Model, records: tf.Variable, batch: Any, rows: tf.Tensor) -> Any:
        """Runs a step on this replica's part of the batch, of which the first `rows` count."""
        context, local = tf.distribute.get_replica_context(), len(self.names)
        place = tf.cast(context.replica_id_in_sync_group % local, tf.int64)
        first, end = place * rows // local, (place + 1) * rows // local
        count = tf.cast(end - first, tf.float32)
        total = context.all_reduce(_SUM, count)
        first = tf.minimum(first, rows_of(batch) - 1)
        part = tf.nest.map_structure(lambda values: values[first : tf.maximum(end, first + 1)], batch)
        former = [tf.identity(variable.value) for variable in model.metrics_variables]
        with replica.part(count, self.replicas * count / total):
            logs = step(part)
            logs = {name: replica.weighted(tf.cast(log, tf.float32)) for name, log in logs.items()}
        for variable, value in zip(model.metrics_variables, former, strict=True):
            variable.assign(tf.where(count > 0, variable.value, value))
        records.assign_add(tf.cast(total, tf.int64))
        return logs

    def logs(self, model: keras.Model, logs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the logs of steps: with several replicas, metrics over the records of all."""
        return logs if logs or not self.strategy else model.get_metrics_result()

    def count(self) -> tf.Variable:
        """Returns a new counter of records, which is the same on all replicas."""
        with self.scope():
            first = tf.VariableAggregation.ONLY_FIRST_REPLICA
            return tf.Variable(0, dtype=tf.int64, trainable=False, aggregation=first)

    # ---- what workers must agree about

    def agree(self, *values: int) -> list[int]:
        """Returns the largest value of all workers for each of the values; all workers must call it at one place."""
        if self.worker.count == 1:
            return list(values)
        return np.max(self._agreed(tf.constant(values, tf.int64)), axis=0).tolist()

    @cached_property
    def _agreed(self) -> Callable[..., Array]:
        return self.gather(tf.identity)

    def gather(self, value: Callable[..., tf.Tensor]) -> Callable[..., Array]:
        """Returns a compiled function that returns the value of each replica of a strategy.

        All workers must call it at one place.
        """
        strategy: Any = self.strategy

        def own(*args: Any) -> tf.Tensor:
            """Every replica adds its value in its own place, to zeros of the others: `strategy.gather` takes 0.3 s."""
            computed = value(*args)
            alone = tf.one_hot(replica.number(), self.replicas, dtype=computed.dtype)
            placed = tf.reshape(alone, [-1, *[1] * len(computed.shape)]) * computed
            return tf.distribute.get_replica_context().all_reduce(_SUM, placed)

        run = tf.function(
            lambda *args: strategy.experimental_local_results(strategy.run(own, args))[0], autograph=False
        )
        return lambda *args: run(*args).numpy()

    def metric(self, variable: keras.Variable) -> "MetricVariable":
        """Returns a variable of a metric, for a checkpoint."""
        return MetricVariable(variable, self)


@dataclass(frozen=True)
class MetricVariable:
    """A variable of a metric, of which every replica has its own: sums over the records that it has seen."""

    variable: keras.Variable
    devices: Devices

    @property
    def shape(self) -> Sequence[int]:
        """The shape on one replica."""
        return self.variable.shape

    @cached_property
    def _gathered(self) -> Callable[[], Array]:
        return self.devices.gather(lambda: tf.identity(self.variable.value))

    def numpy(self) -> Array:
        """Returns the values of all replicas; all workers must call it at one place."""
        return self._gathered() if self.devices.strategy else self.variable.numpy()

    def assign(self, values: Array) -> None:
        """Assigns the values of a checkpoint, of any number of replicas."""
        each = values[None] if values.ndim == len(self.variable.shape) else values
        if len(each) != self.devices.replicas:
            each = np.stack([each.sum(0, each.dtype), *[np.zeros_like(each[0])] * (self.devices.replicas - 1)])
        if self.devices.strategy:
            self.devices.strategy.run(lambda: self.variable.assign(tf.gather(each, replica.number())))
        else:
            self.variable.assign(each[0])


def single(name: str = "CPU:0", *, placed: bool = False) -> Devices:
    """Returns one device of this process."""
    return Devices((name,), placed=placed)


def choose(setting: str) -> Devices:
    """Returns the devices of this process that `train.devices` names."""
    gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
    cpus = [device.name for device in tf.config.list_logical_devices("CPU")]
    usable = cpus if setting.startswith("cpu") else gpus or cpus
    if setting in ("cpu", "one") or len(usable) == 1:
        return single(_short(usable[0]), placed=bool(gpus) and usable is cpus)
    return Devices(tuple(map(_short, usable)), tf.distribute.MirroredStrategy(usable))


def start(setting: str, cluster: Cluster | None) -> Devices:
    """Returns the devices of a process that has not used TensorFlow yet, together with those of other workers."""
    gpus = tf.config.list_physical_devices("GPU")
    if setting == "one" or setting.startswith("cpu"):
        tf.config.set_visible_devices(gpus[:1] if setting == "one" else [], "GPU")
    if cluster is not None:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        names = tuple(map(_short, strategy.extended.worker_devices))
        return Devices(names, strategy, Worker(cluster.index, len(cluster.addresses)))
    if count := int(setting.partition(":")[2] or 0):
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return choose(setting)


def _short(device: str) -> str:
    return ":".join(device.split(":")[-2:])  # of /job:localhost/replica:0/task:0/device:CPU:0
