"""Label: class indices in order of descending frequency, or mean and standard deviation of a quantity.

class names of the train split ─► vocabulary ─► class indices, the same in training, evaluation and serving
quantities                     ─► mean and standard deviation, for the regression head
"""

from typing import Any

import tensorflow as tf

from components.fitting import escaping, names
from components.fitting.analysis import moments, vocabulary
from components.records.roles import Kind


def fit(label: Any, key: str, kind: Kind) -> dict[str, Any]:
    """Returns the label as the Trainer reads it, and stores the count of each label: the ledger's line of Transform."""
    return _classes(label, key) if kind == "class" else _quantity(label, key)


def _classes(label: Any, key: str) -> dict[str, Any]:
    label = escaping.escape(label)
    vocabulary.fit(label, names.LABEL_COUNTS, counts=True)
    vocabulary.fit(label, names.LABEL_VOCABULARY)
    return {key: vocabulary.apply(label, names.LABEL_VOCABULARY)}


def _quantity(label: Any, key: str) -> dict[str, Any]:
    value = tf.cast(label, tf.float32)
    ones = tf.ones_like(value)
    vocabulary.fit(tf.fill(tf.shape(value), "all"), names.LABEL_COUNTS, counts=True)
    mean, variance = moments.fit(value[:, tf.newaxis], 1)
    return {key: value, names.LABEL_MEAN: ones * mean, names.LABEL_DEVIATION: ones * tf.sqrt(variance)}
