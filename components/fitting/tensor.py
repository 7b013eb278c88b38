"""Tensors: mean and variance over all values, per channel or per element (`transform.tensor_zscore`).

`fitted.Fitted.moments` reads them back from the graph, and the model's first layer normalizes with them: arrays reach
the device in their stored dtype.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from components.features.tensor import TensorFeature
from components.fitting.analysis import moments
from components.fitting.names import mean_of, variance_of
from components.records.roles import Column
from components.settings.transform import Transform


def fit(inputs: Mapping[str, Any], columns: Sequence[Column], settings: Transform) -> dict[str, Any]:
    """Returns mean and variance per column, repeated for every record; nothing if `tensor_zscore` is "none"."""
    outputs = {}
    for column in columns if settings.tensor_zscore != "none" else ():
        stored = inputs[column.name]
        values = tf.cast(TensorFeature(column.shape, column.dtype).decode(stored), tf.float32)
        shape = _shape(column.shape, settings.tensor_zscore)
        width = math.prod(shape)
        found = moments.fit(tf.reshape(values, [-1, width]), width)
        for name, moment in zip((mean_of(column.name), variance_of(column.name)), found, strict=True):
            repeated = tf.broadcast_to(tf.reshape(moment, shape), [tf.shape(stored)[0], *shape])
            repeated.set_shape([None, *shape])
            outputs[name] = repeated
    return outputs


def _shape(column: tuple[int, ...], per: str) -> tuple[int, ...]:
    """Returns the shape of the mean: one value per element, per channel, or one in all."""
    if per == "element":
        return column
    return column[-1:] if per == "channel" else ()
