"""Keras callbacks of the Trainer: progress, time spent waiting for input, TensorBoard.

Checkpoints contain the state of a callback that has the methods `state`, which returns plain values, and `restore`.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from components import diagnosis, progress
from components.input_pipeline.probe import WaitMeter
from components.progress import Progress

_WORTH_SECONDS = 2.0  # waited over all epochs so far; a diagnosis takes about as long itself


class InputTimer(keras.callbacks.Callback):
    """Measures each epoch's training and evaluation, the time spent waiting for input, and diagnoses its cause.

    Args:
        meter: measures the waiting time of the training dataset.
        records: records per epoch.
        diagnose: returns the cause, given the waiting time as a fraction and the records per second.
    """

    def __init__(self, meter: WaitMeter, records: int, diagnose: Callable[[float, float], str]) -> None:
        """Starts without epochs."""
        super().__init__()
        self._meter, self._diagnose, self._start = meter, diagnose, 0.0
        self._epoch, self._before = 0, 0.0  # seconds of this epoch before a resume
        self._waited = 0.0  # in this epoch
        self.records = records
        self.seconds: list[float] = []
        self.waited: list[float] = []
        self.evaluated: list[float] = []
        self.note = ""  # why the last epoch waited for its input, if it did
        self._cause = ""

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Starts the clock."""
        del logs
        self._meter.take()
        self._epoch, self._start = epoch, time.perf_counter() - self._before

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Stops the clock: training of the epoch ends when validation begins."""
        del logs
        if len(self.seconds) == self._epoch:  # else resumed within the evaluation
            self._end_training()
        self._start = time.perf_counter()

    def on_test_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Stops the clock of the evaluation."""
        del logs
        self.evaluated.append(time.perf_counter() - self._start)

    def _end_training(self) -> None:
        self.waited.append(self._waited + self._meter.take())
        self.seconds.append(time.perf_counter() - self._start)
        self._before = self._waited = 0.0
        waiting = self.waited[-1] / self.seconds[-1]
        is_bound = waiting >= diagnosis.BOUND
        if is_bound and sum(self.waited) >= _WORTH_SECONDS and not self._cause:  # once: stages cost the same every time
            self._cause = self._diagnose(waiting, self.records / self.seconds[-1])
        self.note = self._cause.partition(": ")[2] if is_bound else ""

    @property
    def is_evaluating(self) -> bool:
        """Whether training of the present epoch has ended."""
        return len(self.seconds) > self._epoch

    def elapsed(self) -> float:
        """Returns the time of all training steps so far."""
        return sum(self.seconds) + (0.0 if self.is_evaluating else time.perf_counter() - self._start)

    def evaluating(self) -> float:
        """Returns the time of the present evaluation so far."""
        return time.perf_counter() - self._start if self.is_evaluating else 0.0

    def waiting(self) -> float:
        """Returns the fraction of the present epoch's training that was spent waiting for input."""
        if self.is_evaluating:
            return self.waited[-1] / self.seconds[-1]
        self._waited += self._meter.take()
        return min(1.0, self._waited / max(1e-9, time.perf_counter() - self._start))

    def of_epoch(self, epoch: int) -> dict[str, float]:
        """Returns the records per second and the share of waiting of an epoch."""
        seconds = self.seconds[epoch]
        return {"samples_per_second": self.records / seconds, "waiting": self.waited[epoch] / seconds}

    def state(self) -> dict[str, Any]:
        """Returns the measurements of all epochs and of the present one, for a checkpoint."""
        self._waited += self._meter.take()
        return {
            "seconds": self.seconds,
            "waited": self.waited,
            "evaluated": self.evaluated,
            "cause": self._cause,
            "present": [0.0, 0.0] if self.is_evaluating else [time.perf_counter() - self._start, self._waited],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues the measurements of a checkpoint."""
        self.seconds, self.waited, self._cause = list(state["seconds"]), list(state["waited"]), state["cause"]
        self.evaluated = list(state["evaluated"])
        self._before, self._waited = state["present"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the measurements, one per epoch, and the diagnosis over all epochs."""
        waited, seconds = sum(self.waited), sum(self.seconds)
        is_short = waited < _WORTH_SECONDS and waited / seconds >= diagnosis.BOUND
        return {
            "verdict": f"the device waits {waited:.1f} s over all epochs: too short to find the cause"
            if is_short
            else diagnosis.renewed(self._cause, waited / seconds),
            "seconds": self.seconds,
            "waited": self.waited,
            "evaluated": self.evaluated,
            "records_per_second": [self.records / seconds for seconds in self.seconds],
        }


class ProgressCallback(keras.callbacks.Callback):
    """Reports progress after every call: place, rate, share of waiting, and the estimated time to the end.

    Args:
        epochs: of the training.
        steps: per epoch.
        evaluation_steps: per evaluation.
        batch_size: records per step.
        timer: called before this callback.
    """

    def __init__(self, epochs: int, steps: int, evaluation_steps: int, batch_size: int, timer: InputTimer) -> None:
        super().__init__()
        self._epochs, self._steps, self._evaluation_steps = epochs, steps, evaluation_steps
        self._batch_size, self._timer = batch_size, timer
        self._epoch, self._loss = 0, ""
        self._begun: tuple[float, int] | None = None  # seconds and steps before this process's first call
        self._first = 0.0, 0  # of that call, which compiles the step

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Notes which epoch it is."""
        del logs
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Notes when the first call begins."""
        del logs
        self._begun = self._begun or (self._timer.elapsed(), self._epoch * self._steps + batch)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Reports steps of training."""
        self._loss = f"loss {(logs or {}).get('loss', 0.0):.3f}"
        if self._begun and not self._first[1]:
            seconds, steps = self._begun
            self._first = self._timer.elapsed() - seconds, self._epoch * self._steps + batch + 1 - steps
        self._report(f"step {batch + 1}/{self._steps}", batch + 1)

    def on_test_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Reports steps of the evaluation."""
        del logs
        self._report(f"evaluation {batch + 1}/{self._evaluation_steps}", self._steps)

    def _report(self, place: str, step: int) -> None:
        timer, steps = self._timer, self._epoch * self._steps + step
        notes = [self._loss, ": ".join(filter(None, [f"waiting {100 * timer.waiting():.0f} %", timer.note]))]
        progress.report(
            Progress(
                done=self._epoch * timer.records + min(step * self._batch_size, timer.records),
                total=timer.records * self._epochs,
                note="  ".join(filter(None, notes)),
                seconds=timer.elapsed(),
                place=f"epoch {self._epoch + 1}/{self._epochs}  {place}",
                left=self._left(steps),
            )
        )

    def _left(self, steps: int) -> float | None:
        """Returns the seconds to the end by all calls but the first; None if there was no other one.

        Until an evaluation was measured, one of its steps counts as one of training.
        """
        timer, (seconds, first) = self._timer, self._first
        if steps == first:
            return None
        per_step = (timer.elapsed() - seconds) / (steps - first)
        done = timer.evaluated
        evaluation = sum(done) / len(done) if done else self._evaluation_steps * per_step
        evaluating = max(0.0, (self._epochs - len(done)) * evaluation - timer.evaluating())
        return (self._epochs * self._steps - steps) * per_step + evaluating


class TensorBoardLog(keras.callbacks.Callback):
    """Writes one TensorBoard log per split, with one value per epoch, those before a resume included.

    Keras's own callback cannot write the epochs of an earlier process.
    """

    def __init__(self, folder: Path, timer: InputTimer) -> None:
        """Takes the folder of the logs, and what measures throughput."""
        super().__init__()
        self._timer = timer
        self._writers = {
            prefix: tf.summary.create_file_writer(str(folder / name))
            for prefix, name in (("", "train"), ("val_", "validation"))
        }
        self._logs: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Writes the values of an epoch."""
        values = {name: value for name, value in (logs or {}).items() if name.removeprefix("val_") != "records"}
        rate = float(self.model.optimizer.learning_rate)
        self._logs.append({**values, "learning_rate": rate, **self._timer.of_epoch(epoch)})
        self._write(epoch)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Closes the logs."""
        del logs
        for writer in self._writers.values():
            writer.close()

    def state(self) -> list[dict[str, float]]:
        """Returns the values of all epochs, for a checkpoint."""
        return self._logs

    def restore(self, state: list[dict[str, float]]) -> None:
        """Writes the epochs before a resume again: the log of the earlier process is gone."""
        self._logs = list(state)
        for epoch in range(len(state)):
            self._write(epoch)

    def _write(self, epoch: int) -> None:
        for prefix, writer in self._writers.items():
            with writer.as_default(step=epoch):
                for name, value in self._logs[epoch].items():
                    if name.startswith("val_") == bool(prefix):
                        tf.summary.scalar(f"epoch_{name.removeprefix(prefix)}", value)
            writer.flush()
