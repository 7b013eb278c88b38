"""Rows of a table: numbers as they are, an embedding for each category, and a residual network over all of them.

    numbers    float [n, k], z-scored; a column of zeros and ones may say what was missing ─┐
    categories int [n, m], each below its size ─► + offset ─► one embedding for all columns ─┴─► wide and deep

Quantile buckets are categories: their number is the size. An id outside of 0 … size - 1, such as the -1 of a word that
no vocabulary knows, has an embedding of its own in each column.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import keras
import numpy as np
from keras import layers, ops

from components.models import Fitted
from components.models.residual import residual
from components.records.roles import Column

_WIDTH, _BLOCKS, _DROPOUT = 64, 2, 0.2
_DIMENSION = 8  # of a category
_LARGEST = 10.0  # standard deviations: one wild value must not outweigh the row


def encode(
    numbers: keras.KerasTensor | None = None, categories: keras.KerasTensor | None = None, sizes: Sequence[int] = ()
) -> keras.KerasTensor:
    """Returns the encoding of numbers, of categories, or of both.

    Args:
        numbers: floats [n, k] without missing values.
        categories: integers [n, m].
        sizes: how many ids each of the m columns has.
    """
    parts = []
    if numbers is not None:
        parts.append(ops.clip(ops.cast(numbers, "float32"), -_LARGEST, _LARGEST))
    if categories is not None:
        parts.append(_embedded(categories, sizes))
    if not parts:
        raise ValueError("a table without columns; expected numbers, categories or both")
    x = layers.Concatenate()(parts) if len(parts) > 1 else parts[0]
    return residual(x, _WIDTH, _BLOCKS, _DROPOUT)


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: Fitted
) -> list[keras.KerasTensor]:
    """Returns the one encoding of all columns; none if there are none."""
    if not columns:
        return []
    return [encode(inputs.get("table_numbers"), inputs.get("table_categories"), fitted.categories(columns))]


def _embedded(categories: keras.KerasTensor, sizes: Sequence[int]) -> keras.KerasTensor:
    """Returns [n, m * dimension] by one lookup: column i has the ids from its offset on, the first for all unknown."""
    if categories.shape[1] != len(sizes):
        raise ValueError(f"{categories.shape[1]} columns of categories, but {len(sizes)} sizes: {list(sizes)}")
    rows = [size + 1 for size in sizes]
    offsets = np.array([0, *accumulate(rows)][:-1])
    known = ops.logical_and(categories >= 0, categories < np.array(sizes))
    ids = ops.where(known, categories + 1, 0) + offsets
    return layers.Flatten()(layers.Embedding(sum(rows), _DIMENSION)(ids))
