"""Keras callbacks and metrics of the Trainer: progress, time spent waiting for input, records per epoch."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from components import diagnosis, progress
from components.errors import PenstockError
from components.input_pipeline.probe import WaitMeter

_WORTH_SECONDS = 2.0  # waited over all epochs so far; a diagnosis takes about as long itself


class RecordCount(keras.metrics.Metric):
    """Counts the records of an epoch, for the ledger."""

    def __init__(self, name: str = "records") -> None:
        """Starts at zero."""
        super().__init__(name=name, dtype="float64")
        self.count = self.add_weight(name="count", initializer="zeros", dtype="float64")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds the size of a batch."""
        del y_pred, sample_weight
        self.count.assign_add(tf.cast(tf.shape(y_true)[0], tf.float64))

    def result(self) -> tf.Tensor:
        """Returns the number of records since the start of the epoch."""
        return self.count


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
        self.seconds: list[float] = []
        self.waited: list[float] = []
        self.note = ""  # about the last epoch, once an epoch has waited for its input
        self._cause = ""

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Starts the clock."""
        del epoch, logs
        self._meter.take()
        self._start = time.perf_counter()

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Stops the clock: training of the epoch ends when validation begins."""
        del logs
        self.seconds.append(time.perf_counter() - self._start)
        self.waited.append(self._meter.take())
        waiting = self.waited[-1] / self.seconds[-1]
        is_worth = waiting >= diagnosis.BOUND and sum(self.waited) >= _WORTH_SECONDS
        if is_worth and not self._cause:  # once: the stages cost the same in every epoch
            self._cause = self._diagnose(waiting, self._records / self.seconds[-1])
        self.note = diagnosis.renewed(self._cause, waiting) if self._cause else ""

    def elapsed(self) -> float:
        """Returns the time of all training steps so far, while an epoch is trained."""
        return sum(self.seconds) + time.perf_counter() - self._start

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
    """Reports progress after every batch, and stops training when the loss is not finite."""

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
        """Checks the training loss and reports the number of records seen."""
        loss = self._finite("loss", logs, f"step {batch + 1}")
        done = self._epoch * self._records + min((batch + 1) * self._batch_size, self._records)
        note = "  ".join(filter(None, [f"epoch {self._epoch + 1}/{self._epochs}  loss {loss:.3f}", self._timer.note]))
        progress.report(done, self._epochs * self._records, note, self._timer.elapsed())

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Checks the validation loss: the last step can spoil the weights after its own loss was computed."""
        del epoch
        self._finite("val_loss", logs, "on the eval split")

    def _finite(self, name: str, logs: Mapping[str, float] | None, where: str) -> float:
        loss = float((logs or {}).get(name, 0.0))
        if not math.isfinite(loss):
            raise PenstockError(
                f"the loss became {loss} in epoch {self._epoch + 1}, {where}; no model was exported. "
                "Lower train.learning_rate, or check the data for extreme values"
            )
        return loss
