"""Table columns: stored column by column, two matrices on the device, converted by the fitted graph.

columns, missing values filled ─► fitted graph ─┬─► numbers    float32 [n, columns]
                                                └─► categories int64   [n, columns]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import keras
import tensorflow as tf

from components.features import DataShape, FittedGraph, NotAugmented
from components.records.roles import MISSING, Column
from components.settings.input import Input

KEY = "table"
_NUMBER_BYTES = 8
_DTYPES = {"numbers": "float32", "categories": "int64"}


@dataclass(frozen=True)
class TableFeature(NotAugmented):
    """All table columns of a record, as one feature."""

    columns: tuple[Column, ...]
    fitted: FittedGraph

    @property
    def decoded_bytes(self) -> int:
        """Two numbers per column: the value, and whether it is missing."""
        return 2 * _NUMBER_BYTES * len(self.columns)

    def spec(self) -> dict[str, tf.io.FixedLenFeature]:
        """One value per column."""
        return {
            column.name: tf.io.FixedLenFeature([], tf.dtypes.as_dtype(column.dtype), MISSING[column.dtype])
            for column in self.columns
        }

    def decode(self, stored: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Applies the fitted graph."""
        found = self.fitted.apply(stored)
        return {kind: found[f"{KEY}_{kind}"] for kind in _DTYPES if f"{KEY}_{kind}" in found}

    def keras_input(self, name: str) -> dict[str, keras.KerasTensor]:
        """Declares the model's inputs, as wide as the fitted matrices."""
        blank = {column.name: tf.constant([MISSING[column.dtype]], column.dtype) for column in self.columns}
        return {
            kind: keras.Input([value.shape[1]], dtype=_DTYPES[kind], name=f"{name}_{kind}")
            for kind, value in self.decode(blank).items()
        }


def from_columns(
    columns: Sequence[Column], fitted: FittedGraph, settings: Input, data: DataShape
) -> dict[str, TableFeature]:
    """Returns one feature of all columns; none if there are no columns."""
    del settings, data
    return {KEY: TableFeature(tuple(columns), fitted)} if columns else {}
