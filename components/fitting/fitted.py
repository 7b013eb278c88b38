"""What Transform has fitted, read back from its graph: applied to batches, and told as plain values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from components.fitting import escaping, label, table, tensor, text
from components.records.roles import Column
from components.settings.transform import Transform


def class_names(output: tft.TFTransformOutput) -> list[str]:
    """Returns the classes, in the order of the model's outputs; none if the label is a quantity."""
    if not _is_there(output, label.VOCABULARY):
        return []
    return [escaping.restored(name.decode()) for name in output.vocabulary_by_name(label.VOCABULARY)]


def label_counts(output: tft.TFTransformOutput) -> dict[str, int]:
    """Returns how many records each class has; together they are all that was fitted on."""
    rows = tf.data.TextLineDataset(output.vocabulary_file_by_name(label.COUNTS)).as_numpy_iterator()
    found = (row.split(b" ", 1) for row in rows)
    return {escaping.restored(name.decode()): int(count) for count, name in found}


def _is_there(output: tft.TFTransformOutput, vocabulary: str) -> bool:
    try:
        return bool(output.vocabulary_file_by_name(vocabulary))
    except ValueError:
        return False


class Fitted:
    """The fitted graph. `graph` must be tracked by whoever exports a function that applies it."""

    def __init__(self, folder: str, settings: Transform, network: tuple[Any, bool] | None = None) -> None:
        """Loads it once; tables are initialised then. The network is pretrained, for images."""
        self._settings, self._network = settings, network
        self._output = tft.TFTransformOutput(folder)
        self.graph = self._output.transform_features_layer()

    def apply(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the graph makes of some raw columns, and of those alone."""
        # Converted, TFT's own code would take five seconds, for nothing.
        found: dict[str, Any] = tf.autograph.experimental.do_not_convert(self.graph)(dict(columns))
        return found

    def classes(self) -> list[str]:
        """Returns the classes, in the order of the model's outputs."""
        return class_names(self._output)

    def class_counts(self) -> list[int]:
        """Returns how many records each class has, in the same order."""
        counts = label_counts(self._output)
        return [counts[name] for name in self.classes()]

    def quantity(self, key: str) -> tuple[float, float]:
        """Returns mean and deviation of the labels, where they are quantities."""
        found = self.apply({key: tf.zeros([1])})
        return float(found[label.MEAN][0]), float(found[label.DEVIATION][0])

    def network(self) -> tuple[Any, bool] | None:
        """Returns a pretrained network for images and whether it learns, if there is one."""
        return self._network

    def tokens(self, place: int) -> int:
        """Returns how many numbers the tokens of a text can have, unknown ones included."""
        return self._size(text.vocabulary_of(place)) + self._settings.unknown_buckets

    def categories(self, columns: Sequence[Column]) -> list[int]:
        """Returns how many numbers each column of categories can have; buckets of numbers come last."""
        named = sum(column.role == "category" for column in columns)
        sizes = [self._size(table.vocabulary_of(place)) for place in range(named)]
        in_buckets = len(columns) - named if self._settings.numbers == "buckets" else 0
        return sizes + [self._settings.buckets] * in_buckets

    def moments(self, column: Column) -> tuple[Any, Any] | None:
        """Returns mean and variance of a tensor; None if they were not asked for."""
        if tensor.mean_of(column.name) not in self._output.transformed_feature_spec():
            return None
        blank = np.zeros(column.shape, column.dtype).tobytes()
        found = self.apply({column.name: tf.constant([blank])})
        return found[tensor.mean_of(column.name)][0].numpy(), found[tensor.variance_of(column.name)][0].numpy()

    def _size(self, vocabulary: str) -> int:
        return int(self._output.vocabulary_size_by_name(vocabulary))
