"""Tensors: mean and variance of all values, of each channel or of each element, if they are asked for.

They are read back from the graph by one record (`fitted.Fitted.moments`) and become the model's first layer: arrays
go to the device as they are stored.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from components.features.tensor import TensorFeature
from components.fitting import moments
from components.records.roles import Column
from components.settings.transform import Transform


def mean_of(name: str) -> str:
    """Returns what the mean is called in the graph."""
    return f"{name}_mean"


def variance_of(name: str) -> str:
    """Returns what the variance is called in the graph."""
    return f"{name}_variance"


def fit(inputs: Mapping[str, Any], columns: Sequence[Column], settings: Transform) -> dict[str, Any]:
    """Returns the moments, the same for every record; nothing if none are asked for."""
    outputs = {}
    for column in columns if settings.moments != "none" else ():
        stored = inputs[column.name]
        values = tf.cast(TensorFeature(column.shape, column.dtype).decode(stored), tf.float32)
        sides = _sides(column.shape, settings.moments)
        width = math.prod(sides)
        found = moments.fit(tf.reshape(values, [-1, width]), width)
        for name, moment in zip((mean_of(column.name), variance_of(column.name)), found, strict=True):
            known = tf.broadcast_to(tf.reshape(moment, sides), [tf.shape(stored)[0], *sides])
            known.set_shape([None, *sides])
            outputs[name] = known
    return outputs


def _sides(shape: tuple[int, ...], by: str) -> tuple[int, ...]:
    """Returns the shape of a mean."""
    if by == "element":
        return shape
    return shape[-1:] if by == "channel" else ()
