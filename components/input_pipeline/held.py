"""Shards of small records that stay in memory, serialized, once they were read.

    shards ─► all records, read once
    epoch  ─► numbers in the order of a seed, a pool at a time ─► those records ─► parse

A shuffle that is as large as the data holds all of it anyway, yet reads it anew for each epoch, and nothing is parsed
until it is full: of 100,000 small tensors that is half of the time.
"""

from dataclasses import dataclass

import tensorflow as tf

from components.input_pipeline.budget import Data, Plan
from components.input_pipeline.sharding import Worker
from components.input_pipeline.shards import Shards
from components.input_pipeline.source import Columns, Source, Spec


def where_planned(source: Source, plan: Plan) -> Source:
    """Returns a source that holds its records, if the plan has room for them; to be called outside of tf.data."""
    return Held(source, _all(source)) if plan.held and isinstance(source, Shards) else source


@dataclass(frozen=True, eq=False)
class Held:
    """Shards, and the records that were read of them."""

    shards: Shards
    records: tf.Tensor  # serialized [n]

    @property
    def data(self) -> Data:
        """That of the shards."""
        return self.shards.data

    def share(self, worker: Worker) -> Shards:
        """Returns one worker's shards, which nobody holds yet."""
        return self.shards.share(worker)

    def in_order(self, size: int) -> tf.data.Dataset:
        """Returns pools as stored."""
        return self.shards.in_order(size)

    def epoch(self, seed: tf.Tensor, plan: Plan, *, exact: bool, drop: bool) -> tf.data.Dataset:
        """Returns numbers of records in the order of an epoch, a pool at a time."""
        del exact  # there is no race that could decide about it
        halves = tf.stack([seed, tf.bitwise.right_shift(seed, tf.constant(32, tf.int64))])  # 32 bits of each are used
        count = tf.size(self.records, tf.int64)
        ends = count // plan.pool * plan.pool if drop else count

        def numbers(first: tf.Tensor) -> tf.Tensor:
            places = tf.range(first, tf.minimum(first + plan.pool, count))
            # A cipher of the place: the order of any pool is had without that of all records.
            return tf.random.experimental.index_shuffle(places, halves, count - 1)

        return tf.data.Dataset.range(0, ends, plan.pool).map(tf.autograph.experimental.do_not_convert(numbers))

    def parse(self, pool: tf.Tensor, spec: Spec, record_id: str) -> tuple[Columns, tf.Tensor]:
        """Parses the records of these numbers, all at once."""
        return self.shards.parse(tf.gather(self.records, pool), spec, record_id)


def _all(shards: Shards) -> tf.Tensor:
    with tf.init_scope():
        return next(iter(shards.in_order(shards.data.records)))
