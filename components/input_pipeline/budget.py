"""How much of everything: sizes in megabytes become numbers of records, batches and threads.

    ram_mb ─┬─ cache (memory)   decoded records
            ├─ reading          buffers of open shards, and records that wait for their turn
            ├─ shuffle          serialized records: at most shuffle_mb, or all of them where they are small and few
            ├─ waiting          a pool that is being filled and one that is full, serialized
            ├─ in the making    parallel x a pool: serialized, parsed and decoded
            ├─ ready            prefetch x a batch, and the one that the loop has
            └─ a fifth          what the allocator holds beside all that, and the graph

What decides about the order of records (shuffle, pool) is taken from the data and the settings alone, so it is the
same on any machine. What does not (threads, batches ahead) gets what is left.

A pool is what is parsed at once. It is a batch where records are large, or costly to decode. Small ones come in blocks
and in pools of many batches: what they cost is the number of elements that pass through tf.data, not their bytes.
If all of them fit into an eighth of the budget, they are held from epoch to epoch, and come in an order of them all.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from components.errors import SettingsError
from components.features import Feature
from components.settings.input import Input

_MB = 1 << 20
_OVERHEAD = 64  # bytes of a string in a tensor, above its content
_LONE_OVERHEAD = 320  # of a tensor with one string in it
_ENTRY_OVERHEAD = 256  # of a record in a cache, a column
_SMALL = 4096  # bytes: records below it come in blocks
_BLOCK = 16
_POOL_RECORDS = 4096  # parsed at once, where records are small
_SLICED = 16  # batches ready at least, where many come at once and each is gone in a fraction of a millisecond
_READ_BUFFER = 1 << 18  # of an open shard
_READ_AHEAD = 4  # records of an open shard that wait for their turn
_THREADED = 1 << 16  # bytes of a record from which on open shards have threads of their own
_ARENAS = 2  # what such records take of the heap, which every thread has a part of, beside what they hold
_POOL_PART, _READ_PART, _HELD_PART = 8, 8, 8  # a pool, what is read ahead, and what is held: this part at most
_USABLE = 0.8  # the rest is the allocator's: measured, `python -m benchmarks.memory`
_TEXT_WORK = 8  # bytes held for a byte of text while it is tokenised: two copies, 24 a token, 8 its number


@dataclass(frozen=True)
class Data:
    """What is known of the records before any is read."""

    records: int
    bytes: int
    shards: int = 0
    is_plain: bool = False  # whether the bytes are those that a record has in memory, too

    @property
    def mean(self) -> int:
        """Bytes of a record, in the mean."""
        return -(-self.bytes // max(1, self.records))

    @property
    def is_large(self) -> bool:
        """Whether reading is worth a thread for every open shard: one alone reads a gigabyte a second."""
        return self.mean >= _THREADED


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    cycle: int  # shards read at once
    block: int  # records that are shuffled together
    shuffle: int  # blocks held for shuffling
    pool: int  # records parsed at once, a multiple of a batch
    parallel: int  # pools in the making at once
    prefetch: int  # batches ready
    held: bool  # whether all records stay in memory, as they are stored
    left_mb: int  # of the budget, for tf.data's autotuner

    @property
    def is_pooled(self) -> bool:
        """Whether records come in blocks."""
        return self.block > 1


def cores() -> int:
    """Returns how many this process may use."""
    return len(os.sched_getaffinity(0))


def plan(settings: Input, data: Data, features: Iterable[Feature]) -> Plan:
    """Returns how the budget is shared out, or refuses a budget that is too small for a batch."""
    features = list(features)
    usable = int(_USABLE * settings.ram_mb * _MB)
    cached = cache_bytes(data, features) if settings.cache == "memory" else 0
    ram = usable - cached
    decoded = sum(_work(feature, data.mean) for feature in features)
    widest = sum(feature.decoded_bytes for feature in features)
    cheap = settings.cache == "none" and not any(feature.is_costly for feature in features)
    block = _BLOCK if cheap and data.mean < _SMALL else 1
    batches = _pool_batches(settings, data, decoded, any(feature.is_ragged for feature in features), block)
    pool = batches * settings.batch_size
    cycle = max(1, min(settings.interleave, ram // _READ_PART // _read_ahead(data)))
    stored = pool * (data.mean + _OVERHEAD)
    in_the_making, ready = 2 * stored + pool * decoded, settings.batch_size * widest
    needed = cycle * _read_ahead(data) + 2 * stored + in_the_making + 2 * ready
    if needed > ram:
        raise _too_little(settings, data, needed, cached)
    scattered = _ARENAS if data.is_large else 1
    everything = _blocks_bytes(data, block)
    held = block > 1 and data.is_plain and everything <= min(settings.ram_mb * _MB // _HELD_PART, ram - needed)
    shuffle = everything if held else min(settings.shuffle_mb * _MB, (ram - needed) // scattered)
    rest = ram - needed - scattered * shuffle
    wanted = settings.prefetch if batches == 1 else max(settings.prefetch, _SLICED)
    prefetch = 1 + min(wanted - 1, rest // max(1, ready))
    rest -= (prefetch - 1) * ready
    parallel = 1 + min((settings.parallel or cores()) - 1, rest // max(1, in_the_making))
    return Plan(cycle, block, _blocks(shuffle, data, block), pool, parallel, prefetch, held, max(1, rest // _MB))


def cache_bytes(data: Data, features: Iterable[Feature]) -> int:
    """Returns what all decoded records take in memory."""
    each = sum(_decoded(feature, data.mean) + _ENTRY_OVERHEAD for feature in features) + _ENTRY_OVERHEAD
    return data.records * each


def _read_ahead(data: Data) -> int:
    return _READ_BUFFER + _READ_AHEAD * data.mean


def _work(feature: Feature, mean: int) -> int:
    """Returns what a record takes while it is decoded."""
    if not feature.is_ragged:
        return feature.decoded_bytes
    # A text is cut before it is tokenised, at eight times what its numbers may take (`features.text`).
    return _TEXT_WORK * min(mean + _OVERHEAD, 8 * feature.decoded_bytes)


def _decoded(feature: Feature, mean: int) -> int:
    # A token has a byte or more, and a border; its number has eight.
    return min(feature.decoded_bytes, 4 * mean + _OVERHEAD) if feature.is_ragged else feature.decoded_bytes


def _pool_batches(settings: Input, data: Data, decoded: int, ragged: bool, block: int) -> int:
    several = -(-_POOL_RECORDS // settings.batch_size) if block > 1 else 1
    wanted = settings.pool_batches if ragged else several
    largest = settings.ram_mb * _MB // _POOL_PART // (2 * (data.mean + _OVERHEAD) + decoded)
    needed = -(-data.records // settings.batch_size)
    return max(1, min(wanted, largest // settings.batch_size, needed))


def _block_bytes(data: Data, block: int) -> int:
    return block * (data.mean + _OVERHEAD) + _LONE_OVERHEAD


def _blocks_bytes(data: Data, block: int) -> int:
    """Returns what all blocks take: the last one of a shard may be a small one."""
    return (-(-data.records // block) + data.shards) * _block_bytes(data, block)


def _blocks(shuffle: int, data: Data, block: int) -> int:
    return max(1, min(-(-data.records // block) + data.shards, shuffle // _block_bytes(data, block)))


def _too_little(settings: Input, data: Data, needed: int, cached: int) -> SettingsError:
    batch = (
        f"a batch of {settings.batch_size} records of {data.mean:,} bytes takes {needed / _MB:,.0f} MB while it is made"
    )
    if cached:
        return SettingsError(
            f"input.cache=memory: {data.records:,} decoded records take {cached / _MB:,.0f} MB, and {batch}; "
            f"input.ram_mb is {settings.ram_mb}: raise it, or take input.cache=file or none"
        )
    return SettingsError(
        f"{batch}, input.ram_mb is {settings.ram_mb}: lower input.batch_size or input.interleave, or raise input.ram_mb"
    )
