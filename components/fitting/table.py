"""Columns of a table side by side: numbers scaled, or put into buckets; categories numbered.

    numbers, dates ─► one matrix, NaN where nothing is known ─┬─ z-scores, 0 there ─┬─► table_numbers
                                                              │  1 there, else 0   ─┘
                                                              └─ buckets, -1 there ─┬─► table_categories
    categories ─► a vocabulary each, -1 for what it does not hold ──────────────────┘

All z-scores, or all buckets, are one analysis over one matrix: eighteen columns cost as much as one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from components.features import dates
from components.fitting import escaping, moments, quantiles
from components.records.roles import MISSING, Column
from components.settings.transform import Transform

NUMBERS, CATEGORIES = "table_numbers", "table_categories"
_UNKNOWN = -1


def vocabulary_of(place: int) -> str:
    """Returns the vocabulary's name of a category, by its place among the categories of a record."""
    return f"category_{place}"


def fit(inputs: Mapping[str, Any], columns: Sequence[Column], settings: Transform) -> dict[str, Any]:
    """Returns numbers and categories, each as a matrix with a row a record."""
    numeric = [column for column in columns if column.role != "category"]
    named = [column for column in columns if column.role == "category"]
    categories = [_category(inputs[column.name], place, settings) for place, column in enumerate(named)]
    outputs = {}
    if numeric:
        matrix = tf.stack([_number(inputs[column.name], column) for column in numeric], axis=1)
        if settings.numbers == "zscore":
            outputs[NUMBERS] = _scaled(matrix, len(numeric))
        else:
            categories += _buckets(matrix, len(numeric), settings.buckets)
    if categories:
        outputs[CATEGORIES] = tf.stack(categories, axis=1)
    return outputs


def _number(values: Any, column: Column) -> Any:
    """Returns float32 with NaN for what is missing, or not finite."""
    if column.role == "date":
        return dates.days(values)
    number = tf.cast(values, tf.float32)
    if column.dtype == "int64":
        return tf.where(tf.equal(values, int(MISSING["int64"])), float("nan"), number)
    return tf.where(tf.math.is_finite(number), number, float("nan"))


def _scaled(matrix: Any, columns: int) -> Any:
    mean, variance = moments.fit(matrix, columns)
    # Without a deviation there is no unit: the distance itself says how far off a value is.
    scores = (matrix - mean) / tf.where(tf.equal(variance, 0.0), 1.0, tf.sqrt(variance))
    missing = tf.math.is_nan(matrix)
    # Nor is there a score of a column that had no value at all in training, or values that no variance can hold.
    return tf.concat([tf.where(tf.math.is_finite(scores), scores, 0.0), tf.cast(missing, tf.float32)], axis=1)


def _buckets(matrix: Any, columns: int, buckets: int) -> list[Any]:
    edges = quantiles.fit(matrix, columns, buckets)
    missing = tf.math.is_nan(matrix)
    # A value that is an edge begins a bucket.
    numbers = tf.searchsorted(edges, tf.transpose(tf.where(missing, 0.0, matrix)), side="right", out_type=tf.int64)
    return tf.unstack(tf.where(missing, tf.constant(_UNKNOWN, tf.int64), tf.transpose(numbers)), columns, axis=1)


def _category(values: Any, place: int, settings: Transform) -> Any:
    if values.dtype != tf.string:
        # What is missing is the empty string, which no vocabulary holds.
        values = tf.where(tf.equal(values, int(MISSING["int64"])), "", tf.strings.as_string(values))
    number = tft.compute_and_apply_vocabulary(
        escaping.one_line(values),
        default_value=_UNKNOWN,
        top_k=settings.categories,
        vocab_filename=vocabulary_of(place),
    )
    return tf.cast(number, tf.int64)
