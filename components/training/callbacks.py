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

_WORTH_SECONDS = 2.0  # waited over all epochs so far; a diagnosis takes about as long itself


class InputTimer(keras.callbacks.Callback):
    """Measures each epoch's training time and the part of it spent waiting for input, and diagnoses the cause.

    Args:
        meter: measures the waiting time of the training dataset.
        records: records per epoch.
        diagnose: returns the cause, given the waiting time as a fraction and the records per second.
    """

    def __init__(self, meter: WaitMeter, records: int, diagnose: Callable[[float, float], str]) -> None:
        """Starts without epochs."""
        super().__init__()
        self._meter, self._records, self._diagnose, self._start = meter, records, diagnose, 0.0
        self._epoch, self._before = 0, 0.0  # seconds of this epoch before a resume
        self._waited = 0.0  # in this epoch
        self.seconds: list[float] = []
        self.waited: list[float] = []
        self.note = ""  # about the last epoch, once an epoch has waited for its input
        self._cause = ""

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Starts the clock."""
        del logs
        self._meter.take()
        self._epoch, self._start = epoch, time.perf_counter() - self._before

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Stops the clock: training of the epoch ends when validation begins."""
        del logs
        if len(self.seconds) > self._epoch:  # resumed within the evaluation
            return
        self.seconds.append(time.perf_counter() - self._start)
        self.waited.append(self._waited + self._meter.take())
        self._before = self._waited = 0.0
        waiting = self.waited[-1] / self.seconds[-1]
        is_worth = waiting >= diagnosis.BOUND and sum(self.waited) >= _WORTH_SECONDS
        if is_worth and not self._cause:  # once: the stages cost the same in every epoch
            self._cause = self._diagnose(waiting, self._records / self.seconds[-1])
        self.note = diagnosis.renewed(self._cause, waiting) if self._cause else ""

    def elapsed(self) -> float:
        """Returns the time of all training steps so far, while an epoch is trained."""
        return sum(self.seconds) + time.perf_counter() - self._start

    def state(self) -> dict[str, Any]:
        """Returns the measurements of all epochs and of the present one, for a checkpoint."""
        trained = len(self.seconds) > self._epoch
        self._waited += self._meter.take()
        return {
            "seconds": self.seconds,
            "waited": self.waited,
            "cause": self._cause,
            "present": [0.0, 0.0] if trained else [time.perf_counter() - self._start, self._waited],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues the measurements of a checkpoint."""
        self.seconds, self.waited, self._cause = list(state["seconds"]), list(state["waited"]), state["cause"]
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
            "records_per_second": [self._records / seconds for seconds in self.seconds],
        }


class ProgressCallback(keras.callbacks.Callback):
    """Reports progress after every call."""

    def __init__(self, epochs: int, batch_size: int, records: int, timer: InputTimer) -> None:
        """Takes the number of epochs, the batch size and the records per epoch."""
        super().__init__()
        self._epochs, self._batch_size, self._records, self._timer = epochs, batch_size, records, timer
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Notes which epoch it is."""
        del logs
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Reports the number of records seen."""
        loss = (logs or {}).get("loss", 0.0)
        done = self._epoch * self._records + min((batch + 1) * self._batch_size, self._records)
        note = "  ".join(filter(None, [f"epoch {self._epoch + 1}/{self._epochs}  loss {loss:.3f}", self._timer.note]))
        progress.report(done, self._epochs * self._records, note, self._timer.elapsed())


class TensorBoardLog(keras.callbacks.Callback):
    """Writes one TensorBoard log per split, with one value per epoch, those before a resume included.

    Keras's own callback cannot write the epochs of an earlier process.
    """

    def __init__(self, folder: Path) -> None:
        """Takes the folder of the logs."""
        super().__init__()
        self._writers = {
            prefix: tf.summary.create_file_writer(str(folder / name))
            for prefix, name in (("", "train"), ("val_", "validation"))
        }
        self._logs: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Writes the values of an epoch."""
        self._logs.append({**(logs or {}), "learning_rate": float(self.model.optimizer.learning_rate)})
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
