"""Stores of records. Each returns them in pools, in the order of an epoch; the inputs also in stored order.

Shards        serialized records in TFRecord files
MemoryShards  the same, read once and kept in memory: small records
Rows          rows of arrays in memory, or files of a list: only their indices are shuffled
DecodedCache  records decoded once, in memory or in a file
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.errors import BadInput
from components.input_pipeline.budget import Budget, DataSize
from components.input_pipeline.sharding import RecordFile, ShardPart, Worker, share

Spec = Mapping[str, Any]  # tf.io features by column
Columns = dict[str, Any]
_INDEX_BYTES = 8
_READ_BUFFER = 1 << 18  # bytes per open shard
_LARGEST_ID = (1 << 63) - 1


@dataclass(frozen=True)
class Shards:
    """TFRecord files, plain or gzip.

    shards, shuffled ─► interleave ─► shuffle blocks of serialized records ─► pools
    """

    parts: tuple[ShardPart, ...]

    @classmethod
    def of(cls, files: Sequence[RecordFile]) -> "Shards":
        """Returns all records of the files."""
        return cls(share(files, Worker()))

    @property
    def size(self) -> DataSize:
        """From the sizes of the files."""
        size = sum(part.file.bytes * part.records // max(1, part.file.records) for part in self.parts)
        plain = not any(part.file.compression for part in self.parts)
        return DataSize(sum(part.records for part in self.parts), size, len(self.parts), plain)

    def share(self, worker: Worker) -> "Shards":
        """Returns one worker's shards, or its records of each shard."""
        return self if worker.count == 1 else Shards(share([part.file for part in self.parts], worker))

    def in_order(self, size: int) -> tf.data.Dataset:
        """Returns serialized records, shard after shard."""
        return self._files().flat_map(self._read).batch(size)

    def epoch(self, seed: tf.Tensor, budget: Budget, *, exact: bool, drop: bool) -> tf.data.Dataset:
        """Returns serialized records in the order of an epoch."""
        data = shuffled(self._files(), len(self.parts), seed)
        data = self._interleaved(data, budget, exact)
        data = shuffled(data, budget.shuffle, seed)
        return data.rebatch(budget.pool, drop) if budget.block > 1 else data.batch(budget.pool, drop)

    def parse(self, pool: tf.Tensor, spec: Spec, record_id: str) -> tuple[Columns, tf.Tensor]:
        """Parses all records at once; without an id column, a hash of the record's bytes is its id."""
        if not record_id:
            return tf.io.parse_example(pool, dict(spec)), tf.strings.to_hash_bucket_fast(pool, _LARGEST_ID)
        parsed = tf.io.parse_example(pool, {**spec, record_id: tf.io.FixedLenFeature([], tf.int64)})
        return parsed, parsed[record_id]

    def _interleaved(self, data: tf.data.Dataset, budget: Budget, exact: bool) -> tf.data.Dataset:
        cycle = min(budget.cycle, len(self.parts))
        if budget.block > 1:
            return data.interleave(lambda *part: self._read(*part).batch(budget.block), cycle_length=cycle)
        # Small records: one thread, because passing each record between threads costs more than reading it.
        # Large records: one thread per open shard, because one thread reads only half a gigabyte per second.
        if not self.size.is_large:
            return data.interleave(self._read, cycle_length=cycle)
        return data.interleave(self._read, cycle_length=cycle, num_parallel_calls=cycle, deterministic=exact)

    def _files(self) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(
            (
                [str(part.file.path) for part in self.parts],
                [part.file.compression for part in self.parts],
                tf.constant([part.first for part in self.parts], tf.int64),
                tf.constant([part.every for part in self.parts], tf.int64),
            )
        )

    def _read(self, path: tf.Tensor, compression: tf.Tensor, first: tf.Tensor, every: tf.Tensor) -> tf.data.Dataset:
        data = tf.data.TFRecordDataset(path, compression, _READ_BUFFER)
        return data.shard(every, first) if any(part.every > 1 for part in self.parts) else data


@dataclass(frozen=True, eq=False)
class MemoryShards:
    """Serialized records of small shards, read once and kept in memory.

    A shuffle buffer as large as the data holds all of it anyway, but reads it again in every epoch, and nothing is
    parsed until it is full: for 100,000 small tensors that was half of the time.
    """

    shards: Shards
    records: tf.Tensor  # serialized [n]

    @classmethod
    def of(cls, shards: Shards) -> "MemoryShards":
        """Reads all records; call it outside of tf.data."""
        with tf.init_scope():
            return cls(shards, next(iter(shards.in_order(shards.size.records))))

    def epoch(self, seed: tf.Tensor, budget: Budget, *, exact: bool, drop: bool) -> tf.data.Dataset:
        """Returns indices of records in the order of an epoch."""
        del exact  # this order never depends on timing
        halves = tf.stack([seed, tf.bitwise.right_shift(seed, tf.constant(32, tf.int64))])  # 32 bits of each are used
        count = tf.size(self.records, tf.int64)
        ends = count // budget.pool * budget.pool if drop else count

        def indices(first: tf.Tensor) -> tf.Tensor:
            places = tf.range(first, tf.minimum(first + budget.pool, count))
            # index_shuffle computes the order of one pool without the order of all records.
            return tf.random.experimental.index_shuffle(places, halves, count - 1)

        return tf.data.Dataset.range(0, ends, budget.pool).map(tf.autograph.experimental.do_not_convert(indices))

    def parse(self, pool: tf.Tensor, spec: Spec, record_id: str) -> tuple[Columns, tf.Tensor]:
        """Parses the records of these indices, all at once."""
        return self.shards.parse(tf.gather(self.records, pool), spec, record_id)


@dataclass(frozen=True, eq=False)
class Rows:
    """Records that are fetched by their index."""

    fetch: Callable[[tf.Tensor], Columns]  # indices to columns
    indices: Any  # int64 [n]
    record_bytes: int  # mean

    @property
    def size(self) -> DataSize:
        """Number of indices, and the size of the records."""
        return DataSize(len(self.indices), self.record_bytes * len(self.indices))

    def share(self, worker: Worker) -> "Rows":
        """Returns every n-th record."""
        return Rows(self.fetch, self.indices[worker.index :: worker.count], self.record_bytes)

    def in_order(self, size: int) -> tf.data.Dataset:
        """Returns the indices."""
        return tf.data.Dataset.from_tensor_slices(self.indices).batch(size)

    def epoch(self, seed: tf.Tensor, budget: Budget, *, exact: bool, drop: bool) -> tf.data.Dataset:
        """Returns the indices in the order of an epoch; the shuffle buffer holds all of them."""
        del exact
        data = tf.data.Dataset.from_tensor_slices(self.indices)
        return shuffled(data, len(self.indices), seed).batch(budget.pool, drop)

    def parse(self, pool: tf.Tensor, spec: Spec, record_id: str) -> tuple[Columns, tf.Tensor]:
        """Fetches the rows; the index is the id."""
        del spec, record_id
        return self.fetch(pool), pool


@dataclass(frozen=True, eq=False)
class DecodedCache:
    """Decoded records: (values, labels, ids) one by one."""

    records: tf.data.Dataset
    shuffle: int
    is_ragged: bool

    def epoch(self, seed: tf.Tensor, budget: Budget, *, exact: bool, drop: bool) -> tf.data.Dataset:
        """Returns decoded records in the order of an epoch."""
        del exact
        data = shuffled(self.records, self.shuffle, seed)
        return data.ragged_batch(budget.pool, drop) if self.is_ragged else data.batch(budget.pool, drop)


InputStore = Shards | Rows
RecordStore = Shards | MemoryShards | Rows | DecodedCache


def from_arrays(columns: Mapping[str, Any]) -> Rows:
    """Returns the rows of arrays of one length."""
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        raise BadInput(f"arrays of {lengths} rows; expected the same length for all, at least 1")
    tensors = {key: tf.convert_to_tensor(column) for key, column in columns.items()}
    return Rows(lambda indices: _gathered(tensors, indices), np.arange(next(iter(lengths.values()))), _INDEX_BYTES)


def from_files(key: str, paths: Sequence[Path], columns: Mapping[str, Any]) -> Rows:
    """Returns the contents of files as column `key`, next to columns of as many rows."""
    names = tf.constant([str(path) for path in paths])
    tensors = {name: tf.convert_to_tensor(column) for name, column in columns.items()}
    mean = sum(path.stat().st_size for path in paths) // max(1, len(paths))

    def fetch(indices: tf.Tensor) -> Columns:
        return {key: tf.map_fn(tf.io.read_file, tf.gather(names, indices)), **_gathered(tensors, indices)}

    return Rows(fetch, np.arange(len(paths)), mean)


def shuffled(data: tf.data.Dataset, buffer: int, seed: tf.Tensor) -> tf.data.Dataset:
    """Shuffles by the given seed only. Call it inside a function that tf.data traces."""
    # Otherwise the program's global seed has an effect; inside a function this sets the seed of its graph alone.
    tf.compat.v1.set_random_seed(1)
    return data.shuffle(buffer, seed=seed, reshuffle_each_iteration=False)


def _gathered(columns: Mapping[str, tf.Tensor], indices: tf.Tensor) -> Columns:
    return {key: tf.gather(column, indices) for key, column in columns.items()}
