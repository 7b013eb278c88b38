"""The spans of an Examples artifact: `spans/s00003.json` has the shards of span 3, and the digest of its content."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from components.records.manifest import Manifest, Shard
    from components.storage.location import Location

FOLDER = "spans"


@dataclass(frozen=True)
class SpanShards:
    """The shards of one split of one span."""

    name: str  # such as s00003; empty if the data has no spans
    key: str  # digest of content, settings and code of the ingest; empty if the data has no spans
    shards: "tuple[Shard, ...]"


def of_split(artifact: "Location", manifest: "Manifest", split: str) -> list[SpanShards]:
    """Returns the shards of a split by span, in the order of the spans."""
    shards = {shard.name: shard for shard in manifest.shards_of(split)}
    found = []
    folder = artifact / FOLDER
    files: list[Location] = list(folder.iterdir()) if folder.is_dir() else []
    for file in sorted(files, key=lambda file: file.name):
        stored = orjson.loads(file.read_bytes())
        own = tuple(shards.pop(report["name"]) for report in stored["reports"] if report["name"] in shards)
        found.append(SpanShards(file.name.removesuffix(".json"), stored["key"], own))
    return [*found, SpanShards("", "", tuple(shards.values()))] if shards or not found else found
