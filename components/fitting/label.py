"""Labels: a number for every class, by falling frequency; or the moments of a quantity.

class names of the train split ─► vocabulary ─► class numbers, the same in training, evaluation and serving
quantities                     ─► mean and deviation, in which the network works
"""

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from components.fitting import escaping, moments
from components.records.roles import Kind

VOCABULARY, COUNTS = "labels", "label_counts"
MEAN, DEVIATION = "label_mean", "label_deviation"


def fit(label: Any, key: str, kind: Kind) -> dict[str, Any]:
    """Returns the label as the trainer wants it, and keeps how often each was seen: it is the ledger's count."""
    return _classes(label, key) if kind == "class" else _quantity(label, key)


def _classes(label: Any, key: str) -> dict[str, Any]:
    label = escaping.one_line(label)
    tft.vocabulary(label, vocab_filename=COUNTS, store_frequency=True)
    number = tft.compute_and_apply_vocabulary(label, vocab_filename=VOCABULARY)
    return {key: tf.cast(number, tf.int64)}


def _quantity(label: Any, key: str) -> dict[str, Any]:
    value = tf.cast(label, tf.float32)
    ones = tf.ones_like(value)
    tft.vocabulary(tf.fill(tf.shape(value), "all"), vocab_filename=COUNTS, store_frequency=True)
    mean, variance = moments.fit(value[:, tf.newaxis], 1)
    return {key: value, MEAN: ones * mean, DEVIATION: ones * tf.sqrt(variance)}
