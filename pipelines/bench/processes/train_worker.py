"""The worker process of `bench train`: runs the training loop for some seconds, on the records and on a few batches."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from components import features as modalities
from components import refs, tasks
from components.input_pipeline import Position, Reader
from components.input_pipeline.probe import WaitMeter
from components.models.heads import Classification, Head, Regression
from components.tasks import assign
from components.training import loop
from components.training.checkpoint import Checkpoints
from components.training.fit import compile_model
from components.training.hardware import devices, precision
from components.training.hardware.devices import Devices
from components.training.stopping import Best
from pipelines.bench import locate
from pipelines.bench.measurements import MeasureJob, TrainMeasurement, TrainResult
from pipelines.bench.processes import input_worker, meter, training_data
from pipelines.bench.processes.training_data import TrainingData

_BATCHES = 8  # in memory, for the model alone: texts differ in length
_MANY = 1 << 40  # steps: time ends a measurement


class Stopwatch(keras.callbacks.Callback):
    """Ends a training some seconds after a warm-up; counts the steps in between.

    Args:
        warm_up: seconds, from the end of the first call, which compiles the step.
        seconds: that are measured, at least; they end with a call.
        waited: returns the seconds of waiting since it was last called.
    """

    def __init__(self, warm_up: float, seconds: float, waited: Callable[[], float]) -> None:
        super().__init__()
        self._warm_up, self._measured, self._waited, self._compiled = warm_up, seconds, waited, 0.0
        self._begun: tuple[float, int] | None = None  # time, step
        self.seconds = self.waited = 0.0
        self.steps = 0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Begins or ends the measurement, if it is time."""
        del logs
        now = time.perf_counter()
        self._compiled = self._compiled or now
        if self._begun is None:
            if now >= self._compiled + self._warm_up:
                self._waited()
                self._begun = time.perf_counter(), batch
        elif now >= self._begun[0] + self._measured:
            self.seconds, self.steps, self.waited = now - self._begun[0], batch - self._begun[1], self._waited()
            self.model.stop_training = True


class NothingFitted:
    """Transform's output for a task whose parts fit nothing, as images alone."""

    def pretrained_model(self) -> None:
        """There is none."""


def measure(job: MeasureJob) -> TrainResult:
    """Measures input, model and both."""
    task, settings = tasks.get(job.task), job.settings
    where = devices.start(settings.train.devices, None)  # first: it sets up TensorFlow
    graph = input_worker.fitted(job)
    data = training_data.load(task, job.artifact, settings.input, settings.train.seed, graph)
    steps, size = data.reader.steps(data.shards), data.reader.settings.batch_size
    memory = (
        where.shares.training(data.reader, data.shards, Position())
        .take(max(1, min(_BATCHES, steps - 1)))
        .cache()
        .repeat()
    )
    waits = WaitMeter()

    def run(batches: Callable[[Position], tf.data.Dataset]) -> Stopwatch:
        stopwatch = Stopwatch(job.warm_up, job.seconds, waits.take)
        with where.scope():
            model = _model(job, data.reader, graph, steps, where)
            per_call = settings.train.steps_per_call
            wanted = loop.TrainingJob(
                model, batches, _MANY, 1, memory, 1, steps_per_call=per_call, devices=where, meter=waits
            )
            loop.train(wanted, Best(), [stopwatch], Checkpoints(None))
        return stopwatch

    alone = run(lambda _: memory)
    both = run(lambda start: where.shares.training(data.reader, data.shards, start))
    measured = TrainMeasurement(
        device=", ".join(where.names),
        input_rate=_input_rate(job, data),
        model_rate=alone.steps * size / alone.seconds,
        rate=both.steps * sum(file.records for file in data.shards) / steps / both.seconds,
        waiting=both.waited / both.seconds,
    )
    return TrainResult(input_worker.facts(data), measured, len(tf.config.list_physical_devices("GPU")))


def _input_rate(job: MeasureJob, data: TrainingData) -> float:
    feed = meter.Feed(lambda: data.reader.training(data.shards))
    feed.run(job.warm_up)
    return feed.run(job.seconds).rate


def _model(job: MeasureJob, reader: Reader, fitted: Any, steps: int, where: Devices) -> keras.Model:
    """Returns the task's model, compiled as the Trainer does."""
    task, train = tasks.get(job.task), job.settings.train
    head: Head = Classification(reader.classes, is_soft=reader.is_soft) if reader.classes else Regression()
    keras.utils.set_random_seed(train.seed)
    inputs = modalities.keras_inputs(reader.features)
    parts = locate.assigned(task, Path(job.artifact))
    with precision.scope(precision.policy(train)):
        encodings = assign.encodings(parts, inputs, fitted or NothingFitted())
        model: keras.Model = refs.load(task.model)(inputs, encodings, head)
    model = where.replicate(model)
    compile_model(model, head, train, steps, where)
    return model
