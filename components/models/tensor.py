"""Tensor encoder for any dtype and shape.

| shape of a record              | encoded as                                                              |
|--------------------------------|-------------------------------------------------------------------------|
| [] or [a]                      | a table row: dense layers                                               |
| [height, width]                | a grayscale image: convolutions                                         |
| [height, width, channels]      | an image: convolutions                                                  |
| [a, …, height, width, channels] | an image; the leading dimensions (frames, views) become more channels  |

The first layer casts and normalizes, with the moments that Transform fitted; without them, batch normalization learns
moments during training.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from components.features import FittedGraph
from components.models.convolution import convolve
from components.models.names import layer_name
from components.models.residual import residual
from components.records.roles import Column

_SMALLEST_MAP = 2
_WIDTH, _BLOCKS, _DROPOUT = 128, 2, 0.1
_FLAT, _IMAGE = 1, 3  # ranks, without the batch dimension


def encode(
    values: keras.KerasTensor, moments: tuple[Any, Any] | None = None, name: str = "tensor"
) -> keras.KerasTensor:
    """Returns the encoding of values [n, …] of any dtype; all dimensions but n must be fixed.

    Args:
        values: the input.
        moments: mean and variance: one number each, one per channel, or one per element.
        name: prefix of the layer names.
    """
    shape = tuple(values.shape[1:])
    if None in shape:
        raise ValueError(f"the tensor's shape is {shape}; expected fixed dimensions instead of None")
    # float32 under any dtype policy: float16 cannot hold a count of a million.
    x = ops.cast(values, "float32")
    if moments:
        x = _normalized(x, moments, name)
    x = layers.Flatten(name=f"{name}_flat")(x) if len(shape) <= _FLAT else _image(x, name)
    if not moments:
        x = layers.BatchNormalization(momentum=0.9, center=False, scale=False, dtype="float32", name=f"{name}_norm")(x)
    return residual(x, _WIDTH, _BLOCKS, _DROPOUT, name) if len(shape) <= _FLAT else convolve(x, _SMALLEST_MAP, name)


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: FittedGraph
) -> list[keras.KerasTensor]:
    """Returns one encoding per tensor column."""
    return [
        encode(inputs[column.name], fitted.moments(column), layer_name("tensor", column.name)) for column in columns
    ]


def _normalized(x: keras.KerasTensor, moments: tuple[Any, Any], name: str) -> keras.KerasTensor:
    """Returns values with mean 0 and variance 1; constant values become 0."""
    mean, variance = (np.asarray(moment).tolist() for moment in moments)  # JSON can hold lists
    shape = np.shape(mean)
    axes: dict[tuple[int, ...], Any] = {tuple(x.shape[1:]): tuple(range(1, len(x.shape))), x.shape[-1:]: -1, (): None}
    if shape not in axes or np.shape(variance) != shape:
        raise ValueError(
            f"the mean has shape {shape} and the variance {np.shape(variance)}, for values of shape "
            f"{tuple(x.shape[1:])}; expected the same for both: one number, one per channel, or one per element"
        )
    return layers.Normalization(axes[shape], mean, variance, dtype="float32", name=f"{name}_zscore")(x)


def _image(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """Returns [n, height, width, channels]."""
    shape = tuple(x.shape[1:])
    if len(shape) < _IMAGE:
        return layers.Reshape((*shape, 1), name=f"{name}_image")(x)
    front = len(shape) - _IMAGE
    x = layers.Permute((front + 1, front + 2, *range(1, front + 1), front + 3), name=f"{name}_channels_last")(x)
    target = (*shape[front : front + 2], math.prod(shape[:front]) * shape[-1])
    return layers.Reshape(target, name=f"{name}_image")(x)
