"""A sample of the records of one span, the same in every run: of the first records of each shard, by their hash."""

import heapq
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.records.manifest import Shard
from components.storage.local_copy import local_copy
from components.storage.location import Location

_READ = 20_000  # records of the span that are read


@dataclass(frozen=True)
class SampledRecord:
    """A record, and where it is."""

    place: str  # shard and index
    values: Mapping[str, Any]  # first value by column; missing ones are left out, images and arrays are empty bytes


def take(artifact: Location, shards: Sequence[Shard], size: int, columns: Collection[str]) -> list[SampledRecord]:
    """Returns a sample of the records of these shards; an empty list if there are none.

    Args:
        artifact: that holds the shards.
        shards: to read.
        size: maximum number of records.
        columns: whose values are kept. Of others, such as images, only whether they have a value.
    """
    from tensorflow.core.example import example_pb2

    filled = [shard for shard in shards if shard.records]
    most = -(-_READ // max(1, len(filled)))
    parsed = (
        (zlib.crc32(record), place, _values(example_pb2.Example.FromString(record), columns))
        for place, record in _read(artifact, filled, most)
    )
    return [SampledRecord(place, values) for _, place, values in heapq.nsmallest(size, parsed)]  # places are unique


def _read(artifact: Location, shards: Iterable[Shard], most: int) -> Iterator[tuple[str, bytes]]:
    import tensorflow as tf

    for shard in shards:
        with local_copy(artifact / shard.name) as file:
            records = tf.data.TFRecordDataset(str(file), "GZIP" if shard.name.endswith(".gz") else "")
            for index, record in enumerate(records.take(most).as_numpy_iterator()):
                yield f"{shard.name} record {index}", record


def _values(example: Any, columns: Collection[str]) -> dict[str, Any]:
    found = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        values = getattr(feature, kind).value if kind else ()
        if values:
            found[name] = values[0] if name in columns else b""
    return found
