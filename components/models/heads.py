"""What a model ends in, by the kind of its label: the last layer, the loss that it is trained by, and its metrics.

Classification  features ─► softmax ─► probabilities [n, classes]   cross-entropy, weighted by class if asked
Regression      features ─► z ─► mean + deviation * z  [n, 1]       squared error in units of the deviation
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras
from keras import layers, ops


class Head(Protocol):
    """The end of a model."""

    def output(self, features: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the model's output, in float32 whatever the policy is."""

    def loss(self) -> keras.losses.Loss:
        """Returns what training makes small."""

    def metrics(self) -> list[keras.metrics.Metric]:
        """Returns what is told of every epoch."""


@dataclass(frozen=True)
class Classification:
    """One of several classes; labels are their numbers."""

    classes: int
    weights: tuple[float, ...] = ()  # one a class, by `class_weights`; none: every record counts the same
    is_soft: bool = False  # labels are shares of every class instead

    def output(self, features: keras.KerasTensor) -> keras.KerasTensor:
        """Returns probabilities."""
        return layers.Dense(self.classes, activation="softmax", dtype="float32", name="probabilities")(features)

    def loss(self) -> keras.losses.Loss:
        """Returns the cross-entropy, each record times the weight of its class."""
        if self.is_soft:
            return keras.losses.CategoricalCrossentropy()
        return WeightedCrossentropy(self.weights) if self.weights else keras.losses.SparseCategoricalCrossentropy()

    def metrics(self) -> list[keras.metrics.Metric]:
        """Returns the accuracy."""
        if self.is_soft:
            return [keras.metrics.CategoricalAccuracy("accuracy")]
        return [keras.metrics.SparseCategoricalAccuracy("accuracy")]


@dataclass(frozen=True)
class Regression:
    """A number. The network works in standard deviations from the mean; the model answers in the label's own unit."""

    mean: float = 0.0
    deviation: float = 1.0

    def __post_init__(self) -> None:
        """Refuses what cannot be scaled back."""
        if not self.deviation > 0:
            raise ValueError(f"the labels' deviation is {self.deviation}; expected more than 0: are they all the same?")

    def output(self, features: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the value, scaled back."""
        scaled = layers.Dense(1, dtype="float32", name="deviations")(features)
        return layers.Rescaling(self.deviation, offset=self.mean, dtype="float32", name="value")(scaled)

    def loss(self) -> keras.losses.Loss:
        """Returns the squared error in units of the variance: about 1 for a model that always says the mean."""
        return ScaledSquaredError(self.deviation)

    def metrics(self) -> list[keras.metrics.Metric]:
        """Returns errors in the label's own unit."""
        return [keras.metrics.MeanAbsoluteError("mae"), keras.metrics.RootMeanSquaredError("rmse")]


@keras.saving.register_keras_serializable("penstock")
class WeightedCrossentropy(keras.losses.Loss):
    """Cross-entropy of class numbers, each record times the weight of its class."""

    def __init__(self, weights: Sequence[float], name: str = "weighted_crossentropy", **kwargs: Any) -> None:
        """Takes one weight a class."""
        super().__init__(name=name, **kwargs)
        self.weights = tuple(weights)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of every record."""
        classes = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        losses = keras.losses.sparse_categorical_crossentropy(classes, y_pred)
        return losses * ops.take(ops.convert_to_tensor(self.weights, losses.dtype), classes)

    def get_config(self) -> dict[str, Any]:
        """Returns what a copy is made from."""
        return {**super().get_config(), "weights": self.weights}


@keras.saving.register_keras_serializable("penstock")
class ScaledSquaredError(keras.losses.Loss):
    """Squared error in units of the labels' variance, so that a learning rate fits whatever the label's unit is."""

    def __init__(self, deviation: float, name: str = "scaled_squared_error", **kwargs: Any) -> None:
        """Takes the labels' standard deviation."""
        super().__init__(name=name, **kwargs)
        self.deviation = deviation

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of every record."""
        error = (ops.reshape(y_true, (-1, 1)) - y_pred) / self.deviation
        return ops.mean(ops.square(error), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns what a copy is made from."""
        return {**super().get_config(), "deviation": self.deviation}


def class_weights(counts: Sequence[int], power: float = 1.0) -> tuple[float, ...]:
    """Returns a weight for each class, the rarer the larger; over all records they are 1 on average.

    Args:
        counts: records of each class.
        power: 1 makes all classes count the same, 0 all records; 0.5 is half way.
    """
    if empty := [number for number, count in enumerate(counts) if count < 1]:
        raise ValueError(f"classes {empty} have no records, so no weight can make up for it: {list(counts)}")
    rarity = [count**-power for count in counts]
    total = sum(weight * count for weight, count in zip(rarity, counts, strict=True))
    return tuple(weight * sum(counts) / total for weight in rarity)
