"""The spans of an Examples artifact: `spans/s00003.json` has the shards of span 3, and the digest of its content."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from components.records.manifest import Manifest, Shard
    from components.storage.location import Location

FOLDER = "spans"
_SHOWN = 8  # spans in a message
_DAY = re.compile(r"s(\d{4})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(T\d{2})?", re.ASCII)
_NUMBER = re.compile(r"s\d{5,}", re.ASCII)


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


def contents(artifact: "Location") -> dict[str, str]:
    """Returns a digest of the content of each span, oldest first; also of spans without records, if Ingest wrote it."""
    from components.records import manifest
    from components.storage.hashing import digest_of

    folder = artifact / FOLDER
    files: list[Location] = list(folder.iterdir()) if folder.is_dir() else []
    found = {file.name.removesuffix(".json"): str(orjson.loads(file.read_bytes())["key"]) for file in files}
    made = manifest.read(artifact)
    for name in {*made.spans} - {*found}:  # extracted embeddings have only shards
        own = [shard for shard in made.shards if manifest.span_of(shard.name) == name]
        found[name] = digest_of(sorted(f"{shard.split} {shard.records} {shard.checksum}" for shard in own))
    return {name: found[name] for name in sorted(found, key=lambda name: (len(name), name))}


def unseen(artifact: "Location", live: "Location") -> tuple[str, ...]:
    """Returns the spans that the live model's records lack, oldest first; all of them if those records are gone."""
    from components.records.manifest import MANIFEST

    known = contents(live) if (live / MANIFEST).is_file() else {}
    return tuple(name for name, key in contents(artifact).items() if known.get(name) != key)


def classes(artifact: "Location", names: "Sequence[str]") -> Counter[str]:
    """Returns the records by class of some spans, over all splits; empty if Ingest did not write the artifact."""
    found = Counter[str]()
    for name in names:
        file = artifact / FOLDER / f"{name}.json"
        for report in orjson.loads(file.read_bytes())["reports"] if file.is_file() else ():
            found.update(report["classes"])
    return found


def text(name: str) -> str:
    """Returns a span as people write it: s00006 is 6, s20261119 is 2026-11-19, s20261119T05 is 2026-11-19T05.

    A number of eight digits that could be a day is written as one: its name does not say what the spans are counted in.
    """
    if day := _DAY.fullmatch(name):
        return f"{day[1]}-{day[2]}-{day[3]}{day[4] or ''}"
    return str(int(name[1:])) if _NUMBER.fullmatch(name) else name


def named(spans: "Sequence[str]") -> str:
    """Returns `span 6`, or `spans 2026-11-18, 2026-11-19`."""
    shown = [*map(text, spans[:_SHOWN]), *([f"{len(spans) - _SHOWN} more"] if len(spans) > _SHOWN else [])]
    return f"span{'s' * (len(spans) > 1)} {', '.join(shown)}"
