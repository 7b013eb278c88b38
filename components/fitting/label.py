"""Label: class indices in order of descending frequency, or mean and standard deviation of a quantity.

class names of the train split ─► vocabulary ─► class indices, the same in training, evaluation and serving
quantities                     ─► mean and standard deviation, for the regression head
"""

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from components.fitting import escaping, moments, names
from components.records.roles import Kind


def fit(label: Any, key: str, kind: Kind) -> dict[str, Any]:
    """Returns the label as the Trainer reads it, and stores the count of each label: the ledger's line of Transform."""
    return _classes(label, key) if kind == "class" else _quantity(label, key)


def _classes(label: Any, key: str) -> dict[str, Any]:
    label = escaping.escape(label)
    tft.vocabulary(label, vocab_filename=names.LABEL_COUNTS, store_frequency=True)
    index = tft.compute_and_apply_vocabulary(label, vocab_filename=names.LABEL_VOCABULARY)
    return {key: tf.cast(index, tf.int64)}


def _quantity(label: Any, key: str) -> dict[str, Any]:
    value = tf.cast(label, tf.float32)
    ones = tf.ones_like(value)
    tft.vocabulary(tf.fill(tf.shape(value), "all"), vocab_filename=names.LABEL_COUNTS, store_frequency=True)
    mean, variance = moments.fit(value[:, tf.newaxis], 1)
    return {key: value, names.LABEL_MEAN: ones * mean, names.LABEL_DEVIATION: ones * tf.sqrt(variance)}
