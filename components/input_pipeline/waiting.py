"""How long the loop that trains waited for batches.

    asked ─┬─► clock ─────┐
           └─► batches ───┴─► clock again, the difference is added up ─► batch

The clock is read inside tf.data, by the thread that asks: Keras takes batches within a compiled function, where
Python cannot look. Nothing that runs ahead may come after it.
"""

from typing import Any

import tensorflow as tf

_as_is = tf.autograph.experimental.do_not_convert


class Meter:
    """Adds up what was waited since it was last asked."""

    def __init__(self) -> None:
        """Starts at nothing."""
        self._seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)

    def watch(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the same batches, and counts how long they are waited for."""
        clock = tf.data.Dataset.counter().map(_as_is(lambda _: tf.timestamp()))
        return tf.data.Dataset.zip((clock, data)).map(_as_is(self._count))

    def take(self) -> float:
        """Returns the seconds, and starts anew."""
        seconds = float(self._seconds.numpy())
        self._seconds.assign(0.0)
        return seconds

    def _count(self, asked: tf.Tensor, *batch: Any) -> Any:
        # By a variable and not by the value: the sum must not hold the batch up, nor be left out.
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            counted = self._seconds.assign_add(tf.timestamp() - asked)
        with tf.control_dependencies([counted]):
            (handed,) = tf.nest.map_structure(tf.identity, batch)
            return handed
