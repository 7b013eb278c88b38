"""Reads the fitted Transform graph: applies it to batches, and returns fitted values as plain Python."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform.saved.saved_transform_io_v2 import SavedModelLoader

from components.fitting import escaping, names
from components.records.roles import Column
from components.settings.transform import Transform


def class_names(output: tft.TFTransformOutput) -> list[str]:
    """Returns the class names in the order of the model's outputs; an empty list if the label is a quantity."""
    if not _has_vocabulary(output, names.LABEL_VOCABULARY):
        return []
    return [escaping.unescape(name.decode()) for name in output.vocabulary_by_name(names.LABEL_VOCABULARY)]


def label_counts(output: tft.TFTransformOutput) -> dict[str, int]:
    """Returns the number of records per class; their sum is the number of records Transform has read."""
    rows = tf.data.TextLineDataset(output.vocabulary_file_by_name(names.LABEL_COUNTS)).as_numpy_iterator()
    pairs = (row.split(b" ", 1) for row in rows)
    return {escaping.unescape(name.decode()): int(count) for count, name in pairs}


def _has_vocabulary(output: tft.TFTransformOutput, vocabulary: str) -> bool:
    try:
        return bool(output.vocabulary_file_by_name(vocabulary))
    except ValueError:
        return False


class Fitted:
    """The fitted Transform graph. A module that exports a function calling `apply` must track `graph`."""

    def __init__(self, folder: str, settings: Transform, pretrained_model: tuple[Any, bool] | None = None) -> None:
        """Loads the graph and initializes its lookup tables.

        Args:
            folder: the `transform_graph` artifact.
            settings: the settings it was fitted with.
            pretrained_model: the image model and whether it is fine-tuned, if it is part of the trained model.
        """
        self._settings, self._pretrained_model = settings, pretrained_model
        self._output = tft.TFTransformOutput(folder)
        self._loader = SavedModelLoader(self._output.transform_savedmodel_dir)
        # TFT tracks it by a Keras 2 layer, which saving traces again, through AutoGraph: 4 s.
        self.graph = self._loader._imported  # noqa: SLF001

    def apply(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the transformed values of the given raw columns."""
        # Without this, AutoGraph spends five seconds converting TFT's code, to no effect.
        apply = tf.autograph.experimental.do_not_convert(self._loader.apply_transform_model)
        outputs: dict[str, Any] = apply(dict(columns))
        return outputs

    def classes(self) -> list[str]:
        """Returns the class names in the order of the model's outputs."""
        return class_names(self._output)

    def class_counts(self) -> list[int]:
        """Returns the number of records per class, in the order of `classes`."""
        counts = label_counts(self._output)
        return [counts[name] for name in self.classes()]

    def quantity(self, key: str) -> tuple[float, float]:
        """Returns mean and standard deviation of the labels, if they are quantities."""
        found = self.apply({key: tf.zeros([1])})
        return float(found[names.LABEL_MEAN][0]), float(found[names.LABEL_DEVIATION][0])

    def pretrained_model(self) -> tuple[Any, bool] | None:
        """Returns the pretrained image model and whether it is fine-tuned; None if there is none."""
        return self._pretrained_model

    def tokens(self, place: int) -> list[Any]:
        """Returns the tokens of a text column in the order of their ids; out-of-vocabulary buckets are tuples."""
        buckets = self._settings.unknown_buckets
        unknown = [("out of vocabulary", bucket, buckets) for bucket in range(buckets)]
        return [*self._vocabulary(names.token_vocabulary(place)), *unknown]

    def categories(self, columns: Sequence[Column]) -> dict[str, list[tuple[Any, ...]]]:
        """Returns the value of each id, by category column; quantile buckets of number columns come last."""
        categorical = [column.name for column in columns if column.role == "category"]
        numeric = [column.name for column in columns if column.role != "category"]
        buckets = [("bucket", bucket, self._settings.buckets) for bucket in range(self._settings.buckets)]
        values: dict[str, list[tuple[Any, ...]]] = {
            name: [(value,) for value in self._vocabulary(names.category_vocabulary(place))]
            for place, name in enumerate(categorical)
        }
        return {**values, **(dict.fromkeys(numeric, buckets) if self._settings.numbers == "buckets" else {})}

    def moments(self, column: Column) -> tuple[Any, Any] | None:
        """Returns mean and variance of a tensor column; None if they were not fitted."""
        if names.mean_of(column.name) not in self._output.transformed_feature_spec():
            return None
        blank = np.zeros(column.shape, column.dtype).tobytes()
        found = self.apply({column.name: tf.constant([blank])})
        return found[names.mean_of(column.name)][0].numpy(), found[names.variance_of(column.name)][0].numpy()

    def _vocabulary(self, name: str) -> list[str]:
        return [each.decode("utf-8", "backslashreplace") for each in self._output.vocabulary_by_name(name)]
