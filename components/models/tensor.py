"""Tensors of any dtype and shape.

| a record is                    | it is taken for                                                        |
|--------------------------------|------------------------------------------------------------------------|
| one number, or [a]             | a row of a table: dense layers                                         |
| [height, width]                | a grey image: convolutions                                           |
| [height, width, channels]      | a image: convolutions                                                |
| [a, …, height, width, channels] | a image with more channels: those of all its layers, frames or views |

Casting and normalising are the first layer: by the moments that Transform has fitted, or, without them, by moments
that are learned while training.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from components.models import Fitted
from components.models.convolution import convolve
from components.models.residual import residual
from components.records.roles import Column

_SMALLEST_MAP = 2
_WIDTH, _BLOCKS, _DROPOUT = 128, 2, 0.1
_FLAT, _IMAGE = 1, 3  # ranks, the batch aside


@dataclass(frozen=True)
class Moments:
    """Mean and variance of the values: one of each, one a channel, or one an element (as nested sequences)."""

    mean: float | Sequence[float]
    variance: float | Sequence[float]


def encode(values: keras.KerasTensor, moments: Moments | None = None) -> keras.KerasTensor:
    """Returns the encoding of numbers of any dtype, [n, …]; all sides but n must be known."""
    shape = tuple(values.shape[1:])
    if None in shape:
        raise ValueError(f"a tensor of shape {shape} has a side that is not known; expected a fixed shape")
    # float32 whatever the policy is: a count of a million is no half-precision number.
    x = ops.cast(values, "float32")
    if moments:
        x = _normalised(x, moments)
    x = _row(x) if len(shape) <= _FLAT else _image(x)
    if not moments:
        x = layers.BatchNormalization(momentum=0.9, center=False, scale=False, dtype="float32")(x)
    return residual(x, _WIDTH, _BLOCKS, _DROPOUT) if len(shape) <= _FLAT else convolve(x, _SMALLEST_MAP)


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: Fitted
) -> list[keras.KerasTensor]:
    """Returns the encoding of every array of a record."""
    return [encode(inputs[column.name], _moments(fitted.moments(column))) for column in columns]


def _moments(fitted: tuple[Any, Any] | None) -> Moments | None:
    return None if fitted is None else Moments(*(np.asarray(moment).tolist() for moment in fitted))


def _normalised(x: keras.KerasTensor, moments: Moments) -> keras.KerasTensor:
    """Returns values whose mean is 0 and whose variance is 1, or 0 where it is 0."""
    sides = np.shape(moments.mean)
    known: dict[tuple[int, ...], Any] = {tuple(x.shape[1:]): tuple(range(1, len(x.shape))), x.shape[-1:]: -1, (): None}
    if sides not in known or np.shape(moments.variance) != sides:
        raise ValueError(
            f"moments of shape {sides} and {np.shape(moments.variance)} for values of shape {tuple(x.shape[1:])}; "
            "expected one number, one a channel, or one an element, of both alike"
        )
    return layers.Normalization(known[sides], moments.mean, moments.variance, dtype="float32")(x)


def _row(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.Reshape((math.prod(x.shape[1:]),))(x)


def _image(x: keras.KerasTensor) -> keras.KerasTensor:
    """Returns [n, height, width, channels]."""
    shape = tuple(x.shape[1:])
    if len(shape) < _IMAGE:
        return layers.Reshape((*shape, 1))(x)
    front = len(shape) - _IMAGE
    x = layers.Permute((front + 1, front + 2, *range(1, front + 1), front + 3))(x)
    return layers.Reshape((*shape[front : front + 2], math.prod(shape[:front]) * shape[-1]))(x)
