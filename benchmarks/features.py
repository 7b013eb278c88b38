"""Features that only the benchmarks need: a table of raw columns, and a text with a given vocabulary."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import keras
import tensorflow as tf

from components.features import NotAugmented
from components.features.text import tokens

_BYTES = {"float32": 4, "int64": 8, "string": 64}


@dataclass(frozen=True)
class RawColumns(NotAugmented):
    """Numbers side by side as float32, and strings side by side, without a fitted graph."""

    columns: Mapping[str, str]  # dtypes by name: float32, int64 or string

    @property
    def decoded_bytes(self) -> int:
        """Numbers as stored; strings are estimated."""
        return sum(_BYTES[dtype] for dtype in self.columns.values())

    def spec(self) -> dict[str, tf.io.FixedLenFeature]:
        """One value per column; a missing one is 0 or an empty string."""
        return {
            name: tf.io.FixedLenFeature([], tf.dtypes.as_dtype(dtype), "" if dtype == "string" else 0)
            for name, dtype in self.columns.items()
        }

    def decode(self, stored: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Stacks the columns of each kind."""
        numbers = [tf.cast(stored[name], tf.float32) for name, dtype in self.columns.items() if dtype != "string"]
        strings = [stored[name] for name, dtype in self.columns.items() if dtype == "string"]
        return {"numbers": tf.stack(numbers, axis=1), "strings": tf.stack(strings, axis=1)}

    def keras_input(self, name: str) -> dict[str, keras.KerasTensor]:
        """No model reads it."""
        raise NotImplementedError(name)


def vocabulary_lookup(lookup: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Returns the function from texts to token indices for a lookup of words."""

    def indices(texts: tf.Tensor) -> tf.RaggedTensor:
        found = tokens(texts)
        return found.with_flat_values(tf.cast(lookup(found.flat_values), tf.int64))

    return indices
