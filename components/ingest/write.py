"""One shard: read its files, check them, encode them, write it whole.

files ─► threads: read, compare with the manifest, check ─► Arrow batch ─► C++ encoder ─► TFRecord ─► rename
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from components import durable
from components.hashing import sha256_of
from components.ingest.encode import encode_example
from components.ingest.manifest import ManifestFile
from components.ingest.shards import ShardPlan
from components.ingest.sources import Record, Refused, Rejected, Source, printable
from components.settings import Ingest

_BATCH_FILES = 128  # images a batch: enough to keep the threads busy, few enough to stay small in memory


@dataclass(frozen=True)
class ShardReport:
    """What a shard holds and what was set aside on the way to it."""

    split: str
    name: str
    records: int
    bytes: int
    sha256: str
    classes: dict[str, int]
    sides: dict[int, int]  # shorter side in pixels -> records
    changed: dict[str, int]  # why bytes were re-encoded -> records
    quarantined: tuple[Refused, ...]
    failure: str = ""  # an input that could not be read: the run must stop
    read: int = 0  # rows that were looked at, where a file holds many


def write_shard(shard: ShardPlan, source: Source, data: Path, artifact: Path, settings: Ingest) -> ShardReport:
    """Writes one shard and accounts for every file of it."""
    target = artifact / shard.name
    target.parent.mkdir(parents=True, exist_ok=True)
    tally = _Tally()
    try:
        with durable.publish_file(target) as aside, tf.io.TFRecordWriter(str(aside)) as writer:
            for batch in _batches(shard.files):
                for example in _encode(tally.sort(_read_batch(batch, source, data, settings))):
                    writer.write(example)
                    tally.written += 1
    except _InputGone as error:
        return tally.report(shard, failure=str(error))
    return tally.report(shard, size=target.stat().st_size, sha256=sha256_of(target))


class _InputGone(Exception):
    """A file of the manifest is no longer there, or no longer the same."""


class _Tally:
    """Counts what became of the files of one shard."""

    def __init__(self) -> None:
        self.classes: Counter[str] = Counter()
        self.sides: Counter[int] = Counter()
        self.changed: Counter[str] = Counter()
        self.quarantined: list[Refused] = []
        self.written = 0  # counted at the writer: the ledger compares it with what was found

    def sort(self, outcomes: list[tuple[ManifestFile, Record | Rejected]]) -> list[tuple[ManifestFile, Record]]:
        """Counts each outcome and returns those that are records."""
        good: list[tuple[ManifestFile, Record]] = []
        for item, outcome in outcomes:
            if isinstance(outcome, Rejected):
                self.quarantined.append(Refused(printable(item.file.path), str(outcome)))
                continue
            good.append((item, outcome))
            self.classes[item.file.label] += 1
            self.sides[outcome.side] += 1
            if outcome.changed:
                self.changed[outcome.changed] += 1
        return good

    def report(self, shard: ShardPlan, size: int = 0, sha256: str = "", failure: str = "") -> ShardReport:
        """Returns the account of the shard."""
        return ShardReport(
            split=shard.split,
            name=shard.name,
            records=self.written,
            bytes=size,
            sha256=sha256,
            classes=dict(self.classes),
            sides=dict(self.sides),
            changed=dict(self.changed),
            quarantined=tuple(self.quarantined),
            failure=failure,
        )


def _batches(files: tuple[ManifestFile, ...]) -> Iterator[tuple[ManifestFile, ...]]:
    for start in range(0, len(files), _BATCH_FILES):
        yield files[start : start + _BATCH_FILES]


def _read_batch(
    batch: tuple[ManifestFile, ...], source: Source, data: Path, settings: Ingest
) -> list[tuple[ManifestFile, Record | Rejected]]:
    # Reading, hashing and decoding all release the interpreter's lock.
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        outcomes = pool.map(lambda item: _read_one(item, source, data, settings), batch)
        return list(zip(batch, outcomes, strict=True))


def _read_one(item: ManifestFile, source: Source, data: Path, settings: Ingest) -> Record | Rejected:
    if item.size > settings.max_file_mb << 20:
        return Rejected(f"{item.size:,} bytes, more than max_file_mb = {settings.max_file_mb}")
    path = data / item.file.path
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _InputGone(f"{printable(str(path))}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != item.sha256:
        raise _InputGone(f"{printable(str(path))}: changed while it was being ingested")
    try:
        return source.read(item.file, content, settings)
    except Rejected as reason:
        return reason


def _encode(records: list[tuple[ManifestFile, Record]]) -> list[bytes]:
    # The id names the content, so that augmentation can be seeded by the record wherever it stands.
    return [encode_example({**record.columns, "id": record_id(item.sha256)}) for item, record in records]


def record_id(sha256: str) -> int:
    """Returns the record's number: 63 bits of its content hash."""
    return int(sha256[:16], 16) >> 1
