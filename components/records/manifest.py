"""The manifest of an Examples artifact: what was read, what each shard holds, how many records were quarantined.

<artifact>/manifest.json     totals, shards with records + bytes + checksum, records per class
<artifact>/sources/          the source files; see `source_files.py`
<artifact>/quarantine.jsonl  one line per quarantined file or row: path, position, reason, first bytes
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from components.records.ledger import Entry
from components.records.quarantine import Quarantined, printable
from components.storage import durable

if TYPE_CHECKING:
    from components.storage.location import Location
    from components.storage.paths import DataPath

MANIFEST = "manifest.json"
QUARANTINE = "quarantine.jsonl"
SPANS = "spans"  # folder with one file per span, in the artifact of data with spans
NEAR_DUPLICATES = "near_duplicates.jsonl"


@dataclass(frozen=True)
class Shard:
    """One TFRecord file of a split."""

    split: str
    name: str  # relative to the artifact
    records: int
    bytes: int
    checksum: str  # as components/records/checksum.py formats it


@dataclass(frozen=True)
class SourceTotals:
    """Number and size of the source files."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Manifest:
    """What an ingest read and wrote."""

    data_digest: str
    found: int  # records in: files or rows read, and files quarantined before they were opened
    sources: SourceTotals
    shards: tuple[Shard, ...]
    classes: dict[str, dict[str, int]]  # split -> class -> records
    quarantined: int
    changed: dict[str, int]  # why bytes were re-encoded -> records
    median_side: int  # shorter side in pixels, over the training split
    warnings: tuple[str, ...]
    label: str = "label"  # column of the label; empty if there is none
    label_source: str = ""  # its name in the data; empty for class folders
    notes: tuple[str, ...] = ()  # what was decided about the data
    splits: dict[str, Any] = field(default_factory=dict)  # settings that decide the split of a record
    image_source: str = ""  # column of image paths in the data; empty if rows do not refer to images

    @property
    def records(self) -> dict[str, int]:
        """Records per split."""
        return {split: sum(shard.records for shard in self.shards_of(split)) for split in self.classes}

    def entry(self) -> Entry:
        """Returns the ledger entry of the ingest."""
        return Entry("Ingest", self.found, sum(shard.records for shard in self.shards), self.quarantined)

    def warnings_in(self, artifact: "DataPath") -> list[str]:
        """Returns the warnings, with the path of the list of near duplicates in the artifact."""
        return [text.replace(NEAR_DUPLICATES, str(artifact / NEAR_DUPLICATES)) for text in self.warnings]

    def shards_of(self, split: str) -> list[Shard]:
        """Returns the shards of one split, in order."""
        return [shard for shard in self.shards if shard.split == split]


def write(artifact: "Location", manifest: Manifest, quarantined: Iterable[Quarantined]) -> None:
    """Writes quarantine list and manifest into the artifact: the manifest last, after all files that it lists."""
    write_quarantine(artifact / QUARANTINE, quarantined)
    durable.fsync_tree(artifact)
    durable.write_bytes(artifact / MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))


def read(artifact: "DataPath") -> Manifest:
    """Reads the manifest of an artifact."""
    stored = orjson.loads((artifact / MANIFEST).read_bytes())
    stored["shards"] = tuple(Shard(**shard) for shard in stored["shards"])
    stored["sources"] = _source_totals(stored["sources"])
    stored["warnings"], stored["notes"] = tuple(stored["warnings"]), tuple(stored.get("notes", ()))
    return Manifest(**stored)


def _source_totals(stored: Any) -> SourceTotals:
    """Returns the totals; manifests of earlier versions have the files themselves."""
    if isinstance(stored, list):
        return SourceTotals(len(stored), sum(size for _, size, _ in stored))
    return SourceTotals(**stored)


def write_quarantine(path: "Location", quarantined: Iterable[Quarantined]) -> None:
    """Writes a quarantine list, one JSON object per line."""
    durable.write_bytes(path, b"".join(orjson.dumps(_to_json(bad)) + b"\n" for bad in quarantined), private=True)


def read_quarantine(artifact: "DataPath") -> list[Quarantined]:
    """Reads the quarantine list of an artifact."""
    lines = (artifact / QUARANTINE).read_bytes().splitlines()
    return [Quarantined(**orjson.loads(line)) for line in lines]


def _to_json(bad: Quarantined) -> dict[str, str]:
    """Returns the fields that have a value: a file has no position, an empty one no bytes."""
    fields = {**vars(bad), "path": printable(bad.path)}
    return {key: fields[key] for key in ("path", "position", "reason", "raw", "raw_base64") if fields[key]}
