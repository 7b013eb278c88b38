"""Tables: many columns of a record in a few tensors, parsed a whole batch at once.

numbers ─────────────────────► float32 [n, columns]
strings with a lookup ───────► int64   [n, columns]    categories, numbered by what Transform fitted
strings without one ─────────► string  [n, columns]    for a loop of one's own; no model takes them
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import keras
import tensorflow as tf

from components.features import Unvaried

_NUMBER_BYTES, _STRING_BYTES = 8, 64
Kind = Literal["numbers", "categories", "strings"]


@dataclass(frozen=True)
class Column:
    """One column, and what stands in for it where a record lacks it."""

    name: str
    dtype: str = "float32"  # in the record: float32, int64 or string
    default: float | str = 0
    lookup: Callable[[tf.Tensor], tf.Tensor] | None = None

    @property
    def kind(self) -> Kind:
        """Which of the tensors it goes to."""
        if self.dtype != "string":
            return "numbers"
        return "categories" if self.lookup else "strings"


@dataclass(frozen=True)
class TableFeature(Unvaried):
    """Columns that the model sees together."""

    columns: tuple[Column, ...]

    @property
    def decoded_bytes(self) -> int:
        """Numbers take eight bytes, strings are guessed at."""
        return sum(_STRING_BYTES if column.kind == "strings" else _NUMBER_BYTES for column in self.columns)

    def spec(self) -> dict[str, tf.io.FixedLenFeature]:
        """One value a column."""
        return {
            column.name: tf.io.FixedLenFeature([], tf.dtypes.as_dtype(column.dtype), self._default(column))
            for column in self.columns
        }

    def decode(self, stored: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the columns of each kind side by side, in the order that they were given in."""
        return {kind: tf.stack([_value(c, stored[c.name]) for c in mine], axis=1) for kind, mine in self._kinds()}

    def keras_input(self, name: str) -> dict[str, keras.KerasTensor]:
        """Declares the model's inputs; strings are not among them."""
        dtypes = {"numbers": "float32", "categories": "int64"}
        return {
            kind: keras.Input([len(mine)], dtype=dtypes[kind], name=f"{name}_{kind}")
            for kind, mine in self._kinds()
            if kind in dtypes
        }

    def _kinds(self) -> list[tuple[Kind, list[Column]]]:
        kinds: tuple[Kind, ...] = ("numbers", "categories", "strings")
        grouped = [(kind, [column for column in self.columns if column.kind == kind]) for kind in kinds]
        return [(kind, mine) for kind, mine in grouped if mine]

    @staticmethod
    def _default(column: Column) -> float | str:
        # A default of nought stands for no text too.
        return "" if column.dtype == "string" and not column.default else column.default


def _value(column: Column, stored: tf.Tensor) -> tf.Tensor:
    if column.kind == "numbers":
        return tf.cast(stored, tf.float32)
    return tf.cast(column.lookup(stored), tf.int64) if column.lookup else stored
