"""Heads: the output layer, loss and metrics for each kind of label.

Classification  features ─► softmax ─► probabilities [n, classes]   cross-entropy; class weights, label smoothing
Regression      features ─► z ─► mean + deviation * z  [n, 1]       squared error in units of the variance
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras
from keras import layers, ops

from components.models.names import AxisNames

_PROBABILITIES = "probabilities"


class Head(Protocol):
    """The output layer of a model, with its loss and metrics."""

    def output(self, features: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the model's output, in float32 under any dtype policy."""

    def loss(self) -> keras.losses.Loss:
        """Returns the loss that training minimizes."""

    def metrics(self) -> list[keras.metrics.Metric]:
        """Returns the metrics that are computed every epoch."""


@dataclass(frozen=True)
class Classification:
    """Predicts one of several classes; labels are class indices."""

    classes: int
    weights: tuple[float, ...] = ()  # one per class, from `class_weights`; empty: all records weigh the same
    is_soft: bool = False  # labels are class probabilities [n, classes], as mixup and cutmix make them
    smoothing: float = 0.0  # fraction of a label that is spread over all classes

    def output(self, features: keras.KerasTensor) -> keras.KerasTensor:
        """Returns probabilities."""
        return layers.Dense(self.classes, activation="softmax", dtype="float32", name=_PROBABILITIES)(features)

    def loss(self) -> keras.losses.Loss:
        """Returns the cross-entropy with smoothed labels, multiplied by the class weights if there are any."""
        if self.is_soft:
            return keras.losses.CategoricalCrossentropy(label_smoothing=self.smoothing)
        if self.weights or self.smoothing:
            return WeightedCrossentropy(self.weights or (1.0,) * self.classes, self.smoothing)
        return keras.losses.SparseCategoricalCrossentropy()

    def metrics(self) -> list[keras.metrics.Metric]:
        """Returns the accuracy."""
        if self.is_soft:
            return [keras.metrics.CategoricalAccuracy("accuracy")]
        return [keras.metrics.SparseCategoricalAccuracy("accuracy")]


@dataclass(frozen=True)
class Regression:
    """Predicts a quantity. The last dense layer works in z-scores; the model outputs the label's own unit."""

    mean: float = 0.0
    deviation: float = 1.0

    def __post_init__(self) -> None:
        """Rejects a standard deviation of 0, which cannot be scaled back."""
        if not self.deviation > 0:
            raise ValueError(
                f"the labels' standard deviation is {self.deviation}; expected more than 0: are all labels equal?"
            )

    def output(self, features: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the value in the label's own unit."""
        scaled = layers.Dense(1, dtype="float32", name="z_score")(features)
        return layers.Rescaling(self.deviation, offset=self.mean, dtype="float32", name="value")(scaled)

    def loss(self) -> keras.losses.Loss:
        """Returns the squared error in units of the variance: about 1 for a model that always predicts the mean."""
        return ScaledSquaredError(self.deviation)

    def metrics(self) -> list[keras.metrics.Metric]:
        """Returns mean absolute and root mean squared error in the label's own unit."""
        return [keras.metrics.MeanAbsoluteError("mae"), keras.metrics.RootMeanSquaredError("rmse")]


@keras.saving.register_keras_serializable("penstock")
class WeightedCrossentropy(keras.losses.Loss):
    """Cross-entropy of smoothed class indices, multiplied by the weight of each record's class."""

    def __init__(
        self, weights: Sequence[float], smoothing: float = 0.0, name: str = "weighted_crossentropy", **kwargs: Any
    ) -> None:
        """Takes one weight per class, and the fraction of a label that is spread over all classes."""
        super().__init__(name=name, **kwargs)
        self.weights, self.smoothing = tuple(weights), smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns one loss per record."""
        classes = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        labels = ops.one_hot(classes, len(self.weights))
        losses = keras.losses.categorical_crossentropy(labels, y_pred, label_smoothing=self.smoothing)
        return losses * ops.take(ops.convert_to_tensor(self.weights, losses.dtype), classes)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, for Keras to serialize."""
        return {**super().get_config(), "weights": self.weights, "smoothing": self.smoothing}


@keras.saving.register_keras_serializable("penstock")
class ScaledSquaredError(keras.losses.Loss):
    """Squared error in units of the labels' variance, so that one learning rate fits labels of any unit."""

    def __init__(self, deviation: float, name: str = "scaled_squared_error", **kwargs: Any) -> None:
        """Takes the labels' standard deviation."""
        super().__init__(name=name, **kwargs)
        self.deviation = deviation

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns one loss per record."""
        error = (ops.reshape(y_true, (-1, 1)) - y_pred) / self.deviation
        return ops.mean(ops.square(error), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments, for Keras to serialize."""
        return {**super().get_config(), "deviation": self.deviation}


def names(classes: Sequence[str]) -> dict[str, AxisNames]:
    """Returns the class of each output, for a warm start; empty if the label is a quantity."""
    axes = {"kernel": 1, "bias": 0} if classes else {}
    return {f"{_PROBABILITIES}/{weight}": AxisNames(axis, tuple(classes)) for weight, axis in axes.items()}


def class_weights(counts: Sequence[int], power: float = 1.0) -> tuple[float, ...]:
    """Returns one weight per class, larger for rarer classes; the mean weight over all records is 1.

    Args:
        counts: number of records per class.
        power: 1 gives all classes the same total weight, 0 gives all records the same weight; 0.5 is between.
    """
    if empty := [number for number, count in enumerate(counts) if count < 1]:
        raise ValueError(
            f"classes {empty} have no records, so no weight; expected at least 1 record each: {list(counts)}"
        )
    rarity = [count**-power for count in counts]
    total = sum(weight * count for weight, count in zip(rarity, counts, strict=True))
    return tuple(weight * sum(counts) / total for weight in rarity)
