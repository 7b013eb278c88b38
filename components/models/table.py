"""Table row encoder: numbers, one embedding per category, and a residual network over both.

    numbers    float [n, k]: z-scores, then 0/1 flags of missing values ─────────────────────┐
    categories int [n, m], each below its size ─► + offset ─► one embedding table for all ─┴─► residual network

A quantile bucket index is a category whose size is the number of buckets. Ids outside 0 … size - 1, such as the -1 of
an out-of-vocabulary value, share one extra embedding per column.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import keras
import numpy as np
from keras import layers, ops

from components.features import FittedGraph
from components.models.names import AxisNames
from components.models.residual import residual
from components.records.roles import Column

_WIDTH, _BLOCKS, _DROPOUT = 64, 2, 0.2
_DIMENSION = 8  # of a category embedding
_LARGEST = 10.0  # z-scores are clipped here, so that one outlier does not dominate the row


def encode(
    numbers: keras.KerasTensor | None = None,
    categories: keras.KerasTensor | None = None,
    sizes: Sequence[int] = (),
    name: str = "table",
) -> keras.KerasTensor:
    """Returns the encoding of numbers, categories, or both.

    Args:
        numbers: floats [n, k] without missing values.
        categories: integers [n, m].
        sizes: number of ids of each of the m columns.
        name: prefix of the layer names.
    """
    parts = []
    if numbers is not None:
        parts.append(ops.clip(ops.cast(numbers, "float32"), -_LARGEST, _LARGEST))
    if categories is not None:
        parts.append(_embedded(categories, sizes, name))
    if not parts:
        raise ValueError("the table has no columns; expected numbers, categories or both")
    x = layers.Concatenate(name=f"{name}_row")(parts) if len(parts) > 1 else parts[0]
    return residual(x, _WIDTH, _BLOCKS, _DROPOUT, name)


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: FittedGraph
) -> list[keras.KerasTensor]:
    """Returns one encoding of all columns; an empty list without columns."""
    if not columns:
        return []
    sizes = [len(values) for values in fitted.categories(columns).values()]
    return [encode(inputs.get("table_numbers"), inputs.get("table_categories"), sizes)]


def names(columns: Sequence[Column], fitted: FittedGraph) -> dict[str, AxisNames]:
    """Returns column and value of each row of the embeddings and of the first dense layer, for a warm start."""
    categories = fitted.categories(columns)
    numbers = [column.name for column in columns if column.role != "category" and column.name not in categories]
    rows = [(column, *value) for column, values in categories.items() for value in ((), *values)]
    inputs = [
        *((column, kind) for kind in ("zscore", "missing") for column in numbers),
        *((column, "embedding", number) for column in categories for number in range(_DIMENSION)),
    ]
    found = {"table_linear/kernel": AxisNames(0, tuple(inputs))}
    return {**found, "table_embedding/embeddings": AxisNames(0, tuple(rows))} if rows else found


def _embedded(categories: keras.KerasTensor, sizes: Sequence[int], name: str) -> keras.KerasTensor:
    """Returns [n, m * dimension] by one lookup. Each column has a range of rows; its first row is for unknown ids."""
    if categories.shape[1] != len(sizes):
        raise ValueError(
            f"{categories.shape[1]} category columns, but {len(sizes)} sizes: {list(sizes)}; expected one each"
        )
    rows = [size + 1 for size in sizes]
    offsets = np.array([0, *accumulate(rows)][:-1])
    known = ops.logical_and(categories >= 0, categories < np.array(sizes))
    ids = ops.where(known, categories + 1, 0) + offsets
    embeddings = layers.Embedding(sum(rows), _DIMENSION, name=f"{name}_embedding")(ids)
    return layers.Flatten(name=f"{name}_flat")(embeddings)
