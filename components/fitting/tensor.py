"""Tensors: mean and variance of all values, of each channel or of each element, if they are asked for.

They are read back from the graph by one record (`fitted.Fitted.moments`) and become the model's first layer: arrays
go to the device as they are stored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from components.features.tensor import TensorFeature
from components.roles import Column
from components.settings import Transform


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
        rows = tf.shape(stored)[0]
        shaped, is_one = _shaped(values, column.shape, settings.moments)
        for name, moment in (
            (mean_of(column.name), tft.mean(shaped, reduce_instance_dims=is_one)),
            (variance_of(column.name), tft.var(shaped, reduce_instance_dims=is_one)),
        ):
            sides = tf.concat([[rows], tf.shape(moment)], axis=0)
            known = tf.broadcast_to(moment, sides)
            known.set_shape([None, *_sides(column.shape, settings.moments)])
            outputs[name] = known
    return outputs


def _shaped(values: Any, shape: tuple[int, ...], moments: str) -> tuple[Any, bool]:
    if moments == "channel" and shape:
        return tf.reshape(values, [-1, shape[-1]]), False
    return values, moments != "element"


def _sides(shape: tuple[int, ...], moments: str) -> tuple[int, ...]:
    if moments == "element":
        return shape
    return shape[-1:] if moments == "channel" else ()
