"""What the code of one replica must know about its part of a batch.

A strategy traces each replica in a thread of its own, so the part is a value of the thread.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

_SUM = tf.distribute.ReduceOp.SUM
_part = threading.local()
_APART = 1_000_003  # distance of the replicas' seeds; the second number of a seed counts up by 1 per step


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

    As Keras's `synchronized=True`, which would include records that do not count, and whose variance is 0 if the mean
    is large: the squares are of deviations, therefore.
    """
    counts = tf.cast(_part.count > 0, x.dtype)
    size = tf.cast(tf.size(x) // tf.shape(x)[-1], x.dtype)
    sums = tf.stack([tf.reduce_sum(x, axes), tf.fill([tf.shape(x)[-1]], size)])
    context = tf.distribute.get_replica_context()
    total, count = tf.unstack(context.all_reduce(_SUM, sums * counts))
    mean = total / count
    squares = tf.reduce_sum(tf.square(x - mean), axes)
    return mean, context.all_reduce(_SUM, squares * counts) / count


def layer_moments(
    alone: Callable[..., Any], layer: keras.layers.BatchNormalization, inputs: tf.Tensor, mask: Any
) -> Any:
    """Returns the moments of a normalization layer; `alone` returns those of this replica."""
    axes = layer._reduction_axes  # noqa: SLF001
    last = len(inputs.shape) - 1
    if mask is not None or last in axes:
        return alone(inputs, mask)
    return moments(inputs, axes)


def next_seed(draw: Callable[[bool], Any], ordered: bool = True) -> Any:
    """Returns the next seed of a generator, another one on every replica: otherwise all would drop the same units."""
    seed = draw(ordered)
    return seed + tf.cast([number() * _APART, 0], seed.dtype)


def number() -> Any:
    """Returns the number of this replica, over all workers."""
    context = tf.distribute.get_replica_context()
    return context.replica_id_in_sync_group if context else 0
