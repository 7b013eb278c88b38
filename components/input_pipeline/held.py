"""Shards of small records that stay in memory, serialized, once they were read.

    first epoch    shards ─► blocks ─► held ─┐
    every epoch                              └─► all blocks shuffled ─► pools

A shuffle that is as large as the data holds all of it anyway, yet reads it anew for each epoch, and nothing is parsed
until it is full: of 100,000 small tensors that is half of the time.
"""

from dataclasses import dataclass

import tensorflow as tf

from components.input_pipeline.budget import Data, Plan
from components.input_pipeline.records import Worker
from components.input_pipeline.shards import Shards
from components.input_pipeline.source import Columns, Source, Spec, shuffled


def where_planned(source: Source, plan: Plan) -> Source:
    """Returns a source that holds its records, if the plan has room; to be called outside of what tf.data traces."""
    return Held(source, source.blocks(plan).cache()) if plan.held and isinstance(source, Shards) else source


@dataclass(frozen=True, eq=False)
class Held:
    """Shards, and the blocks that were read of them."""

    shards: Shards
    blocks: tf.data.Dataset

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
        """Returns pools of serialized records in the order of an epoch, which a race has no say in."""
        del exact
        return shuffled(self.blocks, plan.shuffle, seed).rebatch(plan.pool, drop)

    def parse(self, pool: tf.Tensor, spec: Spec, record_id: str) -> tuple[Columns, tf.Tensor]:
        """Parses all records at once."""
        return self.shards.parse(pool, spec, record_id)
