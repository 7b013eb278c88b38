"""Tensors: raw bytes in the record, an array on the device; numbers that stand in the record as such will do too."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from components.features import DataShape, Fitted, Unvaried
from components.records.roles import Column
from components.settings.input import Input

_AS_DECODED = {"uint32": tf.int32, "uint64": tf.int64}  # decode_raw lacks them; the bits are the same


@dataclass(frozen=True)
class TensorFeature(Unvaried):
    """An array of one shape and dtype, stored as its little-endian bytes in C order."""

    shape: tuple[int, ...]
    dtype: str  # as NumPy names it: uint8, float32

    @property
    def decoded_bytes(self) -> int:
        """The array's own."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def spec(self) -> tf.io.FixedLenFeature:
        """One string."""
        return tf.io.FixedLenFeature([], tf.string)

    def decode(self, stored: tf.Tensor) -> tf.Tensor:
        """Turns bytes into arrays, a whole batch at once; a record of another length is an error."""
        # By the number of records: [-1, …] would cut records of twice the length into two each.
        shape = tf.concat([tf.shape(stored)[:1], self.shape], axis=0)
        if stored.dtype != tf.string:
            return tf.cast(tf.reshape(stored, shape), self.dtype)
        wanted = tf.dtypes.as_dtype(self.dtype)
        flat = tf.io.decode_raw(stored, _AS_DECODED.get(self.dtype, wanted))
        if flat.dtype != wanted:  # never of bool: bitcast refuses it
            flat = tf.bitcast(flat, wanted)
        return tf.ensure_shape(tf.reshape(flat, shape), [None, *self.shape])

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input."""
        return keras.Input(self.shape, dtype=self.dtype, name=name)


def from_columns(
    columns: Sequence[Column], fitted: Fitted, settings: Input, data: DataShape
) -> dict[str, TensorFeature]:
    """Returns a feature for every array; what was fitted of them is in the model."""
    del fitted, settings, data
    return {column.name: TensorFeature(column.shape, column.dtype) for column in columns}
