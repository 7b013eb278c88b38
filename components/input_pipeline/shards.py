"""Records in shards: TFRecord files, plain or gzip.

    shards, shuffled ─► read some at once, in turns ─► shuffle blocks of serialized records ─► pools

Reading in turns is done by one thread where records are small: handing each one from thread to thread costs more than
reading it. Where they are large, every open shard has a thread of its own, as one alone reads half a gigabyte a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from components.input_pipeline.budget import Data, Plan
from components.input_pipeline.sharding import Part, RecordFile, Worker, share
from components.input_pipeline.source import Columns, Spec, shuffled

_BUFFER = 1 << 18  # bytes read at once from a shard
_LARGEST_ID = (1 << 63) - 1


@dataclass(frozen=True)
class Shards:
    """Shards, or parts of them."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, files: Sequence[RecordFile]) -> "Shards":
        """Returns all records of the files."""
        return cls(share(files, Worker()))

    @property
    def data(self) -> Data:
        """By the shards' own figures."""
        size = sum(part.file.bytes * part.records // max(1, part.file.records) for part in self.parts)
        plain = not any(part.file.compression for part in self.parts)
        return Data(sum(part.records for part in self.parts), size, len(self.parts), plain)

    def share(self, worker: Worker) -> "Shards":
        """Returns one worker's shards, or its records of each."""
        return self if worker.count == 1 else Shards(share([part.file for part in self.parts], worker))

    def in_order(self, size: int) -> tf.data.Dataset:
        """Returns pools of serialized records, shard after shard."""
        data = tf.data.Dataset.from_tensor_slices(self._slices())
        return data.flat_map(self._read).batch(size)

    def epoch(self, seed: tf.Tensor, plan: Plan, *, exact: bool, drop: bool) -> tf.data.Dataset:
        """Returns pools of serialized records in the order of an epoch."""
        data = tf.data.Dataset.from_tensor_slices(self._slices())
        data = shuffled(data, len(self.parts), seed)
        data = self._in_turns(data, plan, exact)
        data = shuffled(data, plan.shuffle, seed)
        return data.rebatch(plan.pool, drop) if plan.is_pooled else data.batch(plan.pool, drop)

    def parse(self, pool: tf.Tensor, spec: Spec, record_id: str) -> tuple[Columns, tf.Tensor]:
        """Parses all records at once; without a column of ids a hash of the record's bytes names it."""
        if not record_id:
            return tf.io.parse_example(pool, dict(spec)), tf.strings.to_hash_bucket_fast(pool, _LARGEST_ID)
        parsed = tf.io.parse_example(pool, {**spec, record_id: tf.io.FixedLenFeature([], tf.int64)})
        return parsed, parsed[record_id]

    def _in_turns(self, data: tf.data.Dataset, plan: Plan, exact: bool) -> tf.data.Dataset:
        cycle = min(plan.cycle, len(self.parts))
        if plan.is_pooled:
            return data.interleave(lambda *part: self._read(*part).batch(plan.block), cycle_length=cycle)
        if not self.data.is_large:
            return data.interleave(self._read, cycle_length=cycle)
        return data.interleave(self._read, cycle_length=cycle, num_parallel_calls=cycle, deterministic=exact)

    def _slices(self) -> tuple[Any, ...]:
        return (
            [str(part.file.path) for part in self.parts],
            [part.file.compression for part in self.parts],
            tf.constant([part.first for part in self.parts], tf.int64),
            tf.constant([part.every for part in self.parts], tf.int64),
        )

    def _read(self, path: tf.Tensor, compression: tf.Tensor, first: tf.Tensor, every: tf.Tensor) -> tf.data.Dataset:
        data = tf.data.TFRecordDataset(path, compression, _BUFFER)
        return data.shard(every, first) if any(part.every > 1 for part in self.parts) else data
