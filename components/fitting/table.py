"""Tables: numbers as z-scores or quantile buckets, categories as vocabulary ids.

    numbers, dates ─► one matrix, NaN where missing ─┬─ z-scores, 0 where missing   ─┬─► table_numbers
                                                     │  1 where missing, else 0     ─┘
                                                     └─ bucket index, -1 where missing ─┬─► table_categories
    categories ─► one vocabulary per column, -1 for out-of-vocabulary values ───────────┘

All z-scores, or all buckets, are one analysis over one matrix: eighteen columns cost as much as one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from components.features import dates
from components.fitting import escaping, names
from components.fitting.analysis import moments, quantiles, vocabulary
from components.records.roles import MISSING, Column
from components.settings.transform import Transform

NUMBERS, CATEGORIES = "table_numbers", "table_categories"
_UNKNOWN = -1


def fit(inputs: Mapping[str, Any], columns: Sequence[Column], settings: Transform) -> dict[str, Any]:
    """Returns numbers and categories, each as a matrix with one row per record."""
    numeric = [column for column in columns if column.role != "category"]
    categorical = [column for column in columns if column.role == "category"]
    categories = [_category(inputs[column.name], place, settings) for place, column in enumerate(categorical)]
    outputs = {}
    if numeric:
        matrix = tf.stack([_number(inputs[column.name], column) for column in numeric], axis=1)
        if settings.numbers == "zscore":
            outputs[NUMBERS] = _zscores(matrix, len(numeric))
        else:
            categories += _buckets(matrix, len(numeric), settings.buckets)
    if categories:
        outputs[CATEGORIES] = tf.stack(categories, axis=1)
    return outputs


def _number(values: Any, column: Column) -> Any:
    """Returns float32, with NaN for missing and non-finite values."""
    if column.role == "date":
        return dates.days(values)
    number = tf.cast(values, tf.float32)
    if column.dtype == "int64":
        return tf.where(tf.equal(values, int(MISSING["int64"])), float("nan"), number)
    return tf.where(tf.math.is_finite(number), number, float("nan"))


def _zscores(matrix: Any, columns: int) -> Any:
    mean, variance = moments.fit(matrix, columns)
    # With a variance of 0, the score is the plain difference to the mean.
    scores = (matrix - mean) / tf.where(tf.equal(variance, 0.0), 1.0, tf.sqrt(variance))
    missing = tf.math.is_nan(matrix)
    # A column without values in training, or with a variance beyond float32, has no finite score: 0.
    return tf.concat([tf.where(tf.math.is_finite(scores), scores, 0.0), tf.cast(missing, tf.float32)], axis=1)


def _buckets(matrix: Any, columns: int, buckets: int) -> list[Any]:
    edges = quantiles.fit(matrix, columns, buckets)
    missing = tf.math.is_nan(matrix)
    # A value equal to an edge belongs to the bucket above it.
    indices = tf.searchsorted(edges, tf.transpose(tf.where(missing, 0.0, matrix)), side="right", out_type=tf.int64)
    return tf.unstack(tf.where(missing, tf.constant(_UNKNOWN, tf.int64), tf.transpose(indices)), columns, axis=1)


def _category(values: Any, place: int, settings: Transform) -> Any:
    if values.dtype != tf.string:
        # A missing value becomes the empty string, which is in no vocabulary.
        values = tf.where(tf.equal(values, int(MISSING["int64"])), "", tf.strings.as_string(values))
    escaped, name = escaping.escape(values), names.category_vocabulary(place)
    vocabulary.fit(escaped, name, settings.categories)
    return vocabulary.apply(escaped, name, default_value=_UNKNOWN)
