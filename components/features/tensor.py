"""Tensors: raw bytes or numbers in the record, an array on the device."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from components.features import DataShape, FittedGraph, NotAugmented
from components.records.roles import Column
from components.settings.input import Input

_AS_DECODED = {"uint32": tf.int32, "uint64": tf.int64}  # decode_raw does not support them; the bits are the same


@dataclass(frozen=True)
class TensorFeature(NotAugmented):
    """An array of one shape and dtype, stored as its little-endian bytes in C order."""

    shape: tuple[int, ...]
    dtype: str  # NumPy's name: uint8, float32

    @property
    def decoded_bytes(self) -> int:
        """Size of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def spec(self) -> tf.io.FixedLenFeature:
        """One string."""
        return tf.io.FixedLenFeature([], tf.string)

    def decode(self, stored: tf.Tensor) -> tf.Tensor:
        """Converts bytes to arrays, a whole batch at once; a record of another length is an error."""
        # With the number of records: [-1, …] would split records of twice the length into two.
        shape = tf.concat([tf.shape(stored)[:1], self.shape], axis=0)
        if stored.dtype != tf.string:
            return tf.cast(tf.reshape(stored, shape), self.dtype)
        wanted = tf.dtypes.as_dtype(self.dtype)
        flat = tf.io.decode_raw(stored, _AS_DECODED.get(self.dtype, wanted))
        if flat.dtype != wanted:  # never for bool, which bitcast does not support
            flat = tf.bitcast(flat, wanted)
        return tf.ensure_shape(tf.reshape(flat, shape), [None, *self.shape])

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input."""
        return keras.Input(self.shape, dtype=self.dtype, name=name)


def from_columns(
    columns: Sequence[Column], fitted: FittedGraph, settings: Input, data: DataShape
) -> dict[str, TensorFeature]:
    """Returns one feature per column; the model contains what was fitted."""
    del fitted, settings, data
    return {column.name: TensorFeature(column.shape, column.dtype) for column in columns}
