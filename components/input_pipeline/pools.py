"""A pool of parsed records becomes batches.

    pool ─┬─ of one length ─► permuted ───────────────────────────► cut into batches
          └─ of many ───────► sorted by length ─► cut into batches ─► the batches permuted

Sorted, texts of like length share a batch: 4 % of it is padding, where batches at random have 70 %. The price is that
a batch holds texts of one length; which of equal length stand together is random, and so is the order of batches.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class Padded(NamedTuple):
    """Records of different lengths, padded to the widths of the batches that they will be cut into."""

    flat: tf.Tensor  # record after record
    widths: tf.Tensor  # [k]
    starts: tf.Tensor  # [k]: where a batch begins


class Pool(NamedTuple):
    """Records on their way: each entry has a row a record."""

    values: Any
    labels: Any
    seeds: tf.Tensor  # [n, 2]


def rows(pool: Pool) -> tf.Tensor:
    """Returns how many records a pool holds."""
    # By the labels where there are some: seeds are made only if somebody varies by them.
    return tf.shape(pool.labels if isinstance(pool.labels, tf.Tensor) else pool.seeds)[0]


def mixed(pool: Pool, seed: tf.Tensor) -> Pool:
    """Puts the records of a pool into random order."""
    return _taken(pool, tf.random.experimental.stateless_shuffle(tf.range(rows(pool)), seed))


def sorted_by_length(pool: Pool, lengths: tf.Tensor, seed: tf.Tensor) -> Pool:
    """Puts the shortest first; among equals chance decides."""
    chance = tf.random.stateless_uniform(tf.shape(lengths), seed)
    return _taken(pool, tf.argsort(tf.cast(lengths, tf.float32) + chance))


def padded(ragged: tf.RaggedTensor, size: int, widths: Callable[[tf.Tensor], tf.Tensor]) -> Padded:
    """Pads every record of a pool to the width of its batch, all at once."""
    lengths = ragged.row_lengths()
    of_batch = tf.range(tf.size(lengths)) // size
    wide = widths(tf.math.segment_max(lengths, of_batch))
    missing = tf.gather(wide, of_batch) - lengths
    noughts = tf.RaggedTensor.from_row_lengths(tf.zeros(tf.reduce_sum(missing), ragged.dtype), missing, validate=False)
    flat = tf.concat([ragged, noughts], axis=1).flat_values
    return Padded(flat, wide, tf.cumsum(wide * size, exclusive=True))


def cut(pool: Pool, order: tf.Tensor, size: int, keep: bool, finish: Callable[[Pool], Any]) -> tf.data.Dataset:
    """Returns the batches of a pool, in the order of their numbers; one that is not full is among them or not."""
    whole = rows(pool)

    def batch(number: tf.Tensor) -> Any:
        first = number * size
        count = tf.minimum(size, whole - first) if keep else size
        return finish(Pool(*(_part(entry, number, first, count) for entry in pool)))

    return tf.data.Dataset.from_tensor_slices(order).map(tf.autograph.experimental.do_not_convert(batch))


def _part(entry: Any, number: tf.Tensor, first: tf.Tensor, count: tf.Tensor | int) -> Any:
    if isinstance(entry, Padded):
        width = tf.cast(entry.widths[number], tf.int32)
        cells = entry.flat[tf.cast(entry.starts[number], tf.int32) :][: count * width]
        return tf.reshape(cells, [count, width])
    if isinstance(entry, dict):
        return {key: _part(value, number, first, count) for key, value in entry.items()}
    return tf.nest.map_structure(lambda values: _slice(values, first, count), entry)


def _slice(values: Any, first: tf.Tensor, count: tf.Tensor | int) -> Any:
    part = values[first : first + count]
    return part if isinstance(count, tf.Tensor) else tf.ensure_shape(part, [count, *part.shape[1:]])


def sliced(batch: Any, size: int, keep: bool) -> tf.data.Dataset:
    """Returns dense tensors of a pool in batches as they come; what is left over is kept or not.

    No function runs for a batch here: half a millisecond saved, which is more than small batches take to be made.
    """
    count = tf.shape(tf.nest.flatten(batch)[0])[0] // size
    full = tf.nest.map_structure(lambda entry: _folded(entry[: count * size], count, size), batch)
    data = tf.data.Dataset.from_tensor_slices(full)
    if not keep:
        return data
    rest = tf.nest.map_structure(lambda entry: entry[count * size :], batch)
    left = tf.minimum(tf.shape(tf.nest.flatten(rest)[0], tf.int64)[0], 1)
    return data.concatenate(tf.data.Dataset.from_tensors(rest).take(left))


def _folded(entry: tf.Tensor, count: tf.Tensor, size: int) -> tf.Tensor:
    folded = tf.reshape(entry, tf.concat([[count, size], tf.shape(entry)[1:]], axis=0))
    return tf.ensure_shape(folded, [None, size, *entry.shape[1:]])


def _taken(pool: Pool, places: tf.Tensor) -> Pool:
    return Pool(*tf.nest.map_structure(lambda rows: tf.gather(rows, places), tuple(pool)))
