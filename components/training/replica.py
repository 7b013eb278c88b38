"""What the code of one replica must know about its part of a batch.

A strategy traces each replica in a thread of its own, so the part is a value of the thread.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

_SUM = tf.distribute.ReduceOp.SUM
_part = threading.local()


@contextmanager
def part(count: tf.Tensor, weight: tf.Tensor) -> Iterator[None]:
    """Says within the block how many records of this replica count, and the weight of their loss."""
    _part.count, _part.weight = count, weight
    try:
        yield
    finally:
        del _part.count, _part.weight


def weighted(loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss of this replica with its weight.

    The loss and not the gradients, because moments over all replicas pass gradients from one to another.
    """
    weight = getattr(_part, "weight", None)
    return loss if weight is None else loss * tf.cast(weight, loss.dtype)


def moments(x: tf.Tensor, axes: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and variance over the records of all replicas that count.

    As Keras's `synchronized=True`, which would include records that do not count, and adds up three times.
    """
    counts = tf.cast(_part.count > 0, x.dtype)
    size = tf.cast(tf.size(x) // tf.shape(x)[-1], x.dtype)
    sums = tf.stack([tf.reduce_sum(x, axes), tf.reduce_sum(tf.square(x), axes), tf.fill([tf.shape(x)[-1]], size)])
    total, squares, count = tf.unstack(tf.distribute.get_replica_context().all_reduce(_SUM, sums * counts))
    mean = total / count
    return mean, tf.maximum(squares / count - tf.square(mean), 0.0)
