"""The training loop: epochs of compiled calls, evaluation at their ends, checkpoints between calls.

    batches ─► call: several steps ─► callbacks ─► checkpoint by time, SIGTERM, Ctrl-C ─┐
       ▲                                                                                │
       └──────── epoch not finished ◄───────────────────────────────────────────────────┤
       └──────── next epoch ◄── checkpoint ◄── best epoch, callbacks ◄── evaluation ◄───┘

It calls `model.train_step` as Keras's `fit` does, with bit-equal results. In addition it continues where a checkpoint
left off, within an epoch too, as if it had never stopped (docs/adr/0028-own-training-loop.md).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from components.errors import Cancelled, NotFinite, SettingsError
from components.input_pipeline import Position
from components.input_pipeline.probe import WaitMeter
from components.training import checkpoint, interrupt
from components.training.calls import Calls
from components.training.checkpoint import Checkpoints
from components.training.hardware.devices import Devices, Step, single
from components.training.stopping import Best


@dataclass(frozen=True)
class TrainingJob:
    """What is trained, and on what."""

    model: keras.Model  # compiled
    batches: Callable[[Position], tf.data.Dataset]  # endless, from a position on
    steps: int  # per epoch
    epochs: int
    evaluation: tf.data.Dataset
    evaluation_steps: int
    step: Step | None = None  # default: `model.train_step`
    steps_per_call: int = 0  # see `Calls`
    devices: Devices = field(default_factory=single)
    batch_size: int = 0  # records per step, over all workers; a checkpoint of another one is rejected
    meter: WaitMeter = field(default_factory=WaitMeter)  # of the steps of training


@dataclass
class State:
    """How far a training has got, as plain values."""

    epoch: int = 0
    step: int = 0  # steps of this epoch that are done
    logs: dict[str, float] = field(default_factory=dict)  # of training in this epoch, when its last step is done
    history: dict[str, list[float]] = field(default_factory=dict)  # one value per epoch
    learning_rate: list[float] = field(default_factory=list)  # at the end of each epoch
    resumed: list[dict[str, Any]] = field(default_factory=list)
    stopped: bool = False  # before the last epoch
    steps_per_call: int = 0


def train(
    job: TrainingJob, best: Best, callbacks: Sequence[keras.callbacks.Callback], checkpoints: Checkpoints
) -> State:
    """Trains to the last epoch, from the checkpoint if there is one; returns the history."""
    return _Loop(job, best, callbacks, checkpoints).run()


class _Loop:
    def __init__(
        self, job: TrainingJob, best: Best, callbacks: Sequence[keras.callbacks.Callback], checkpoints: Checkpoints
    ) -> None:
        self._job, self._model, self._best, self._checkpoints = job, job.model, best, checkpoints
        self._conditions = _conditions(job)
        self._state = _continued(checkpoints.found, self._conditions)
        self._batches = job.batches(Position(self._state.epoch, self._state.step))
        self._devices = job.devices
        self._devices.prepare(self._model, self._batches.element_spec)
        jit = bool(self._model.jit_compile)
        calls = partial(Calls, model=self._model, devices=job.devices, steps=job.steps_per_call, jit_compile=jit)
        step, own = job.step or self._model.train_step, job.step is not None
        self._learn = calls(step, spec=self._batches.element_spec, own=own, meter=job.meter)
        self._test = calls(self._model.test_step, spec=job.evaluation.element_spec)
        # One iterator for all epochs: TensorFlow takes 40 ms to make one, and an epoch of few records less than that.
        counted = tf.data.experimental.assert_cardinality(job.evaluation_steps)
        self._evaluation = job.evaluation.apply(counted).repeat()
        self._metrics = [job.devices.metric(variable) for variable in self._model.metrics_variables]
        best.require([*self._learn.names, *(f"val_{name}" for name in self._test.names)])
        self._stateful = [each for each in callbacks if hasattr(each, "restore")]
        self._callbacks = keras.callbacks.CallbackList(callbacks, model=self._model, epochs=job.epochs, steps=job.steps)
        self._signalled: Callable[[], int] = lambda: 0

    def run(self) -> State:
        state, job = self._state, self._job
        self._restore()
        self._model.stop_training = state.stopped
        self._callbacks.on_train_begin()
        iterator, evaluation = iter(self._batches), iter(self._evaluation)
        with interrupt.noted() as self._signalled:
            while state.epoch < job.epochs and not self._model.stop_training:
                self._callbacks.on_epoch_begin(state.epoch)
                if state.step == 0:
                    self._reset(self._learn)
                while state.step < job.steps and not self._model.stop_training:
                    self._callbacks.on_train_batch_begin(state.step)
                    done, logs = self._learn(iterator, job.steps - state.step)
                    self._require_finite(logs, f"step {state.step + done}")
                    state.step, state.logs = state.step + done, {**logs, "records": float(self._learn.records.numpy())}
                    self._callbacks.on_train_batch_end(state.step - 1, logs)
                    self._between_calls()
                self._end_epoch({**state.logs, **self._evaluate(evaluation)})
            self._between_calls()  # a signal at the end of the last epoch
            self._checkpoints.wait()
        self._callbacks.on_train_end()
        state.steps_per_call = self._learn.steps
        return state

    def _evaluate(self, iterator: Any) -> dict[str, float]:
        step = 0
        logs: dict[str, float] = {}
        self._reset(self._test)
        self._callbacks.on_test_begin()
        while step < self._job.evaluation_steps:
            self._callbacks.on_test_batch_begin(step)
            done, logs = self._test(iterator, self._job.evaluation_steps - step)
            step += done
            self._callbacks.on_test_batch_end(step - 1, logs)
            self._between_calls()
        self._callbacks.on_test_end(logs)
        return {f"val_{name}": value for name, value in {**logs, "records": float(self._test.records.numpy())}.items()}

    def _end_epoch(self, logs: dict[str, float]) -> None:
        state = self._state
        self._require_finite({"loss": logs.get("val_loss", 0.0)}, "on the eval split")
        for name, value in logs.items():
            state.history.setdefault(name, []).append(value)
        state.learning_rate.append(float(self._model.optimizer.learning_rate))
        should_stop = self._best.update(state.epoch, logs, self._model)
        self._callbacks.on_epoch_end(state.epoch, logs)
        state.stopped = self._model.stop_training = self._model.stop_training or should_stop
        state.epoch, state.step, state.logs = state.epoch + 1, 0, {}
        self._save()

    def _between_calls(self) -> None:
        """Writes a checkpoint if it is time; ends the training if a signal was received."""
        signum, is_due, self._learn.steps, self._test.steps = self._devices.agree(
            self._signalled(), self._checkpoints.is_due(), self._learn.steps, self._test.steps
        )
        if signum:
            self._save(cause=Cancelled(signum).args[0])
            self._checkpoints.wait()
            raise Cancelled(signum, self._checkpoints.saved())
        if is_due:
            self._save()

    def _reset(self, calls: Calls) -> None:
        self._model.reset_metrics()
        calls.records.assign(0)

    def _require_finite(self, logs: Mapping[str, float], where: str) -> None:
        if not math.isfinite(loss := logs.get("loss", 0.0)):
            advice = self._checkpoints.advice()
            raise NotFinite(f"the loss became {loss} in epoch {self._state.epoch + 1}, {where}; {advice}")

    def _variables(self) -> dict[str, list[Any]]:
        """Returns what a checkpoint holds, in this order."""
        model = self._model
        metrics = [*self._metrics, self._learn.records]
        return {"model": model.variables, "optimizer": model.optimizer.variables, "metrics": metrics}

    def _save(self, cause: str = "") -> None:
        variables = self._variables()
        header = {
            **asdict(self._state),
            "cause": cause,
            "best": self._best.state(),
            "threads": checkpoint.threads(),
            "conditions": self._conditions,
            "variables": _shapes(variables),
            "callbacks": [each.state() for each in self._stateful],
        }
        weights = [*variables["model"], *variables["optimizer"]]
        self._checkpoints.save(header, weights, variables["metrics"], self._best.weights)

    def _restore(self) -> None:
        """Assigns what the checkpoint holds; all variables exist by now."""
        if (found := self._checkpoints.found) is None:
            return
        groups = self._variables()
        shapes, former = _shapes(groups), found.header["variables"]
        _require_same(f"other variables of the {name}" for name in groups if former[name] != shapes[name])
        variables = [variable for group in groups.values() for variable in group]
        for variable, value in zip(variables, found.arrays[: len(variables)], strict=True):
            variable.assign(value)
        self._best.restore(found.header["best"], found.arrays[len(variables) :])
        for each, state in zip(self._stateful, found.header["callbacks"], strict=self._devices.is_chief):
            each.restore(state)
        self._checkpoints.release()


def _conditions(job: TrainingJob) -> dict[str, Any]:
    """Returns what may differ on another machine, and what a checkpoint cannot continue with if it does."""
    return {
        "workers": job.devices.worker.count,  # an epoch divides its records by their number
        "precision": ", ".join(sorted({layer.compute_dtype for layer in job.model.layers if layer.weights})),
        "records per step": job.batch_size,
        "steps per epoch": job.steps,
    }


def _shapes(groups: Mapping[str, Sequence[Any]]) -> dict[str, list[list[int]]]:
    return {name: [list(each.shape) for each in group] for name, group in groups.items()}


def _require_same(differences: Iterable[str]) -> None:
    """Raises SettingsError if the training of a checkpoint differs from this one."""
    if listed := ", ".join(differences):
        raise SettingsError(
            f"the training that is to continue had {listed}; expected the same: run on devices of the same kind and "
            "number, with as many workers, or begin again with --force Trainer"
        )


def _continued(found: checkpoint.Checkpoint | None, conditions: Mapping[str, Any]) -> State:
    if found is None:
        return State()
    former = found.header["conditions"]
    _require_same(f"{name} {former[name]}, now {each}" for name, each in conditions.items() if former[name] != each)
    state = State(**{name: found.header[name] for name in State.__dataclass_fields__})
    resume = {"epoch": state.epoch, "step": state.step, "at": found.header["at"], "cause": found.header["cause"]}
    state.resumed = [*state.resumed, {**resume, "note": found.note}]
    return state
