"""The best epoch by a value of the history, and early stopping: plain state that a checkpoint can hold."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from components.errors import NotFinite, SettingsError

_LOWER = ("loss", "error", "mae", "mse", "rmse")
_HIGHER = ("accuracy", "auc", "precision", "recall", "f1", "r2")


class Best:
    """Keeps the weights of the best epoch, and says when there was none better for `patience` epochs.

    Args:
        name: value of the history that is compared, such as `val_loss`.
        patience: epochs without a better value after which training stops; 0: never.
    """

    def __init__(self, name: str = "val_loss", patience: int = 0) -> None:
        self._name, self._patience, self._sign = name, patience, _sign(name)
        self.epoch = -1
        self.value = 0.0
        self.weights: list[np.ndarray[Any, Any]] = []

    def require(self, known: Iterable[str]) -> None:
        """Raises SettingsError unless the history has the value."""
        if self._name not in (names := sorted(known)):
            raise SettingsError(f"train.best_by is {self._name!r}, expected one of: {', '.join(names)}")

    def update(self, epoch: int, logs: Mapping[str, float], model: keras.Model) -> bool:
        """Compares an epoch with the best one; returns whether training should stop. NaN is never the best."""
        value = logs[self._name]
        if math.isfinite(value) and (self.epoch < 0 or self._sign * value > self._sign * self.value):
            self.epoch, self.value = epoch, value
            self.weights = [np.array(variable.numpy()) for variable in model.variables]
        return 0 < self._patience <= epoch - self.epoch

    def assign(self, model: keras.Model) -> None:
        """Gives the model the weights of the best epoch; raises NotFinite if there is none."""
        if self.epoch < 0:
            raise NotFinite(
                f"train.best_by is {self._name!r}, which was NaN or infinite in every epoch; expected a number in at "
                "least one: no model was exported. Choose another train.best_by, or check the eval split"
            )
        for variable, value in zip(model.variables, self.weights, strict=True):
            variable.assign(value)

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint holds in addition to the weights."""
        return {"epoch": self.epoch, "value": self.value}

    def restore(self, state: Mapping[str, Any], weights: Sequence[np.ndarray[Any, Any]]) -> None:
        """Continues from a checkpoint; the weights are copied, because they are views of the whole file."""
        self.epoch, self.value, self.weights = state["epoch"], state["value"], [np.array(each) for each in weights]


def _sign(name: str) -> int:
    """Returns 1 if a higher value is better, -1 if a lower one is."""
    last = name.rpartition("_")[2]
    if last in (*_LOWER, *_HIGHER):
        return 1 if last in _HIGHER else -1
    raise SettingsError(
        f"train.best_by is {name!r}: it is not known whether a higher or a lower value is better; "
        f"expected a name that ends with one of: {', '.join((*_LOWER, *_HIGHER))}"
    )
