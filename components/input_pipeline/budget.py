"""Memory budget of the input pipeline: megabytes to numbers of records, batches and threads.

    ram_mb ─┬─ cache (memory)   decoded records
            ├─ reading          buffers of open shards, and records read ahead
            ├─ shuffle          serialized records: at most shuffle_mb, or all of them if they are small and few
            ├─ waiting          one pool that fills and one that is full, serialized
            ├─ in work          parallel x one pool: serialized, parsed and decoded
            ├─ ready            prefetch x one batch, and the batch in use
            └─ a fifth          allocator overhead and the graph

Whatever affects the order of records (shuffle, pool) depends on the data and the settings alone, so it is the same on
every machine. Threads and prefetched batches get the rest.

A pool is what is parsed at once: one batch if records are large or costly to decode. Small records come in blocks and
in pools of many batches, because their cost is the number of elements in tf.data, not their bytes. If all of them fit
into an eighth of the budget, they stay in memory, and the shuffle covers all of them.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from components.errors import SettingsError
from components.features import Feature
from components.settings.input import Input

_MB = 1 << 20
_OVERHEAD = 64  # bytes per string in a tensor
_LONE_OVERHEAD = 320  # bytes of a tensor with one string
_ENTRY_OVERHEAD = 256  # bytes per record and column in a cache
_SMALL = 4096  # bytes; smaller records come in blocks
_BLOCK = 16  # records
_POOL_RECORDS = 4096  # small records parsed at once
_SLICED = 16  # prefetched batches of small records: many come at once, and each is used within a millisecond
_READ_BUFFER = 1 << 18  # bytes per open shard
_READ_AHEAD = 4  # records per open shard
_THREADED = 1 << 16  # bytes; larger records are read by one thread per open shard
_ARENAS = 2  # heap of such records relative to their size: every thread has its own arena
_POOL_PART, _READ_PART, _MEMORY_PART = 8, 8, 8  # a pool, reading, records in memory: at most this part of the budget
_USABLE = 0.8  # the allocator takes the rest: measured by `python -m benchmarks.memory`
_BATCHES = ((1_000_000, 256), (256_000, 128), (1_000, 64), (0, 32))  # from this many records on, so many per batch
_BATCH_PART = 16  # a batch that is chosen here: at most this part of the budget
_TEXT_WORK = 8  # bytes per byte of text in tokenisation: two copies, 24 per token, 8 for its index


@dataclass(frozen=True)
class DataSize:
    """What is known about the records before any is read."""

    records: int
    bytes: int
    shards: int = 0
    is_plain: bool = False  # records have the same size in memory as on disk

    @property
    def mean(self) -> int:
        """Mean size of a record in bytes."""
        return -(-self.bytes // max(1, self.records))

    @property
    def is_large(self) -> bool:
        """Whether one thread per open shard pays off: a single thread reads a gigabyte per second."""
        return self.mean >= _THREADED


@dataclass(frozen=True)
class Budget:
    """Sizes of all buffers, and numbers of threads."""

    cycle: int  # shards read at once
    block: int  # records shuffled together
    shuffle: int  # blocks in the shuffle buffer
    pool: int  # records parsed at once, a multiple of the batch size
    parallel: int  # pools in work at once
    prefetch: int  # batches ready
    in_memory: bool  # all records stay in memory, serialized
    left_mb: int  # for tf.data's autotuner


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def batch_size(settings: Input, data: DataSize, features: Iterable[Feature]) -> int:
    """Returns the records per batch: `batch_size`, or if that is 0, a power of two that suits the training records.

    An epoch of a large table has at least 2,000 steps: with fewer, larger batches cost accuracy.
    """
    if settings.batch_size:
        return settings.batch_size
    wanted = next(size for records, size in _BATCHES if data.records >= records)
    each = data.mean + sum(feature.decoded_bytes for feature in features)
    fitting = max(1, settings.ram_mb * _MB // _BATCH_PART // max(1, each))
    return min(wanted, 1 << (fitting.bit_length() - 1))


def allocate(settings: Input, data: DataSize, features: Iterable[Feature]) -> Budget:
    """Returns the budget of a training.

    Raises:
        SettingsError: `ram_mb` is too small for one batch.
    """
    features = list(features)
    cached = cache_bytes(data, features) if settings.cache == "memory" else 0
    ram = int(_USABLE * settings.ram_mb * _MB) - cached
    decoded = sum(_work(feature, data.mean) for feature in features)
    is_cheap = settings.cache == "none" and not any(feature.is_costly for feature in features)
    block = _BLOCK if is_cheap and data.mean < _SMALL else 1
    batches = _pool_batches(settings, data, decoded, any(feature.is_ragged for feature in features), block)
    pool = batches * settings.batch_size
    cycle = max(1, min(settings.interleave, ram // _READ_PART // _read_ahead(data)))
    stored = pool * (data.mean + _OVERHEAD)
    in_work = 2 * stored + pool * decoded
    ready = settings.batch_size * sum(feature.decoded_bytes for feature in features)
    needed = cycle * _read_ahead(data) + 2 * stored + in_work + 2 * ready
    if needed > ram:
        raise _too_small(settings, data, needed, cached)
    arenas = _ARENAS if data.is_large else 1
    block_bytes = block * (data.mean + _OVERHEAD) + _LONE_OVERHEAD
    blocks = -(-data.records // block) + data.shards  # the last block of a shard may be partial
    everything = blocks * block_bytes
    in_memory = block > 1 and data.is_plain and everything <= min(settings.ram_mb * _MB // _MEMORY_PART, ram - needed)
    shuffle = everything if in_memory else min(settings.shuffle_mb * _MB, (ram - needed) // arenas)
    rest = ram - needed - arenas * shuffle
    wanted = settings.prefetch if batches == 1 else max(settings.prefetch, _SLICED)
    prefetch = 1 + min(wanted - 1, rest // max(1, ready))
    rest -= (prefetch - 1) * ready
    parallel = 1 + min((settings.parallel or cores()) - 1, rest // max(1, in_work))
    shuffled = max(1, min(blocks, shuffle // block_bytes))
    return Budget(cycle, block, shuffled, pool, parallel, prefetch, in_memory, max(1, rest // _MB))


def cache_bytes(data: DataSize, features: Iterable[Feature]) -> int:
    """Returns the memory of all decoded records."""
    each = sum(_decoded(feature, data.mean) + _ENTRY_OVERHEAD for feature in features) + _ENTRY_OVERHEAD
    return data.records * each


def _read_ahead(data: DataSize) -> int:
    return _READ_BUFFER + _READ_AHEAD * data.mean


def _work(feature: Feature, mean: int) -> int:
    """Returns the memory of one record while it is decoded."""
    if not feature.is_ragged:
        return feature.decoded_bytes
    # A text is truncated before tokenisation to eight times the size of its token indices (`features.text`).
    return _TEXT_WORK * min(mean + _OVERHEAD, 8 * feature.decoded_bytes)


def _decoded(feature: Feature, mean: int) -> int:
    # A token has at least one byte and a separator; its index has eight bytes.
    return min(feature.decoded_bytes, 4 * mean + _OVERHEAD) if feature.is_ragged else feature.decoded_bytes


def _pool_batches(settings: Input, data: DataSize, decoded: int, ragged: bool, block: int) -> int:
    several = -(-_POOL_RECORDS // settings.batch_size) if block > 1 else 1
    wanted = settings.pool_batches if ragged else several
    largest = settings.ram_mb * _MB // _POOL_PART // (2 * (data.mean + _OVERHEAD) + decoded)
    needed = -(-data.records // settings.batch_size)
    return max(1, min(wanted, largest // settings.batch_size, needed))


def _too_small(settings: Input, data: DataSize, needed: int, cached: int) -> SettingsError:
    batch = f"a batch of {settings.batch_size} records of {data.mean:,} bytes needs {needed / _MB:,.0f} MB"
    if cached:
        return SettingsError(
            f"input.cache=memory: {data.records:,} decoded records need {cached / _MB:,.0f} MB, and {batch}; "
            f"input.ram_mb is {settings.ram_mb}: raise it, or set input.cache to file or none"
        )
    return SettingsError(
        f"{batch}; input.ram_mb is {settings.ram_mb}: lower input.batch_size or input.interleave, or raise input.ram_mb"
    )
