"""One shard: read its files, check them, encode them, write it whole.

    files, some at a time ─► read, compare with the manifest, check ─► encode ─► TFRecord ─► rename
                                                           └─► set aside, with the reason and how the file begins

A file is what the manifest says if its stat is the one that was hashed; only if that cannot tell, it is hashed again.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.ingest.images.checks import Checks
from components.ingest.sources import FileRecord, FileSource, ImageSource, Rejected
from components.ingest.survey.listing import ListedFile
from components.ingest.work.shards import ShardFiles
from components.ingest.write.encode_record import example_parts
from components.records.quarantine import Quarantined, printable
from components.records.tfrecord import TFRecordWriter
from components.storage import durable
from components.storage.hashing import stat_key
from components.storage.paths import DataPath, open_whole

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

# What is written at a time: enough to be worth a call, few enough to stay small in memory.
_BATCH_FILES, _BATCH_BYTES = 64, 1 << 20


@dataclass(frozen=True)
class ShardReport:
    """What a shard holds and what was set aside on the way to it."""

    split: str
    name: str
    records: int
    bytes: int
    checksum: str
    classes: dict[str, int]
    sides: dict[int, int]  # shorter side in pixels -> records
    changed: dict[str, int]  # why bytes were re-encoded -> records
    quarantined: tuple[Quarantined, ...]
    failure: str = ""  # an input that could not be read: the run must stop
    read: int = 0  # rows that were looked at, where a file holds many
    perceptual_hashes: str = ""  # of its images, packed by near_duplicates


def write_shard(
    shard: ShardFiles,
    source: FileSource,
    data: DataPath,
    artifact: Path,
    settings: "Ingest",
    checks: Path | None = None,
) -> ShardReport:
    """Writes one shard and accounts for every file of it.

    Args:
        shard: what is to be in it.
        source: who reads it.
        data: the folder that paths are relative to.
        artifact: where the shard goes.
        settings: of the ingest.
        checks: verdicts on images that are known already, and where new ones go.
    """
    target = artifact / shard.name
    target.parent.mkdir(parents=True, exist_ok=True)
    tally = _Tally()
    try:
        with (
            Checks(checks, settings) as known,
            durable.publish_file(target, sync=False) as aside,
            TFRecordWriter(aside) as written,
        ):
            for batch in _Reader(source, data, settings, known).read_all(shard.files):
                written.write(_parts(item, record) for item, record in tally.sort(batch))
    except _InputGone as error:
        return tally.report(shard, failure=str(error))
    return tally.report(shard, written)


_Outcomes = list[tuple[ListedFile, FileRecord | Quarantined]]


class _InputGone(Exception):
    """A file of the manifest is no longer there, or no longer the same."""


class _Tally:
    """Counts what became of the files of one shard."""

    def __init__(self) -> None:
        self.classes: Counter[str] = Counter()
        self.sides: Counter[int] = Counter()
        self.changed: Counter[str] = Counter()
        self.quarantined: list[Quarantined] = []
        self.hashes: list[tuple[str, int]] = []

    def sort(self, batch: _Outcomes) -> Iterator[tuple[ListedFile, FileRecord]]:
        """Counts each outcome, and yields those that are records."""
        for item, outcome in batch:
            if isinstance(outcome, Quarantined):
                self.quarantined.append(outcome)
                continue
            self.classes[item.file.label] += 1
            self.sides[outcome.side] += 1
            if outcome.changed:
                self.changed[outcome.changed] += 1
            if outcome.perceptual_hash is not None:
                self.hashes.append((item.sha256, outcome.perceptual_hash))
            yield item, outcome

    def report(self, shard: ShardFiles, written: TFRecordWriter | None = None, failure: str = "") -> ShardReport:
        """Returns the account of the shard; records are counted at the file, for the ledger to compare."""
        return ShardReport(
            split=shard.split,
            name=shard.name,
            records=written.records if written else 0,
            bytes=written.size if written else 0,
            checksum=written.checksum if written else "",
            classes=dict(self.classes),
            sides=dict(self.sides),
            changed=dict(self.changed),
            quarantined=tuple(self.quarantined),
            failure=failure,
            perceptual_hashes=_packed(self.hashes),
        )


def _packed(hashes: Sequence[tuple[str, int]]) -> str:
    if not hashes:
        return ""
    from components.ingest.close import near_duplicates  # with NumPy, which a check of headers does without

    return near_duplicates.pack(hashes)


class _Reader:
    """Reads files and checks them."""

    def __init__(self, source: FileSource, data: DataPath, settings: "Ingest", checks: Checks) -> None:
        self._source, self._data, self._settings, self._checks = source, data, settings, checks
        self._images = source if isinstance(source, ImageSource) else None

    def read_all(self, files: Sequence[ListedFile]) -> Iterator[_Outcomes]:
        """Yields what became of the files, in order, some at a time."""
        if self._images is not None:
            self._checks.expect(item.sha256 for item in files)
        for batch in _batches(files):
            yield [(item, self._read(item)) for item in batch]

    def _read(self, item: ListedFile) -> FileRecord | Quarantined:
        limit = self._settings.max_file_mb
        if item.size > limit << 20:
            return Quarantined(printable(item.file.path), f"{item.size:,} bytes, more than max_file_mb = {limit}")
        content = _content(self._data, item)
        try:
            if self._images is None:
                return self._source.read(item.file, content, self._settings)
            return self._images.record(item.file, self._checks.check(content, item.sha256))
        except Rejected as reason:
            return Quarantined.of(printable(item.file.path), str(reason), reason.position, content)


def _batches(files: Sequence[ListedFile]) -> Iterator[Sequence[ListedFile]]:
    """Yields files in their order, some at a time."""
    start, size = 0, 0
    for place, item in enumerate(files):
        if place > start and (place - start == _BATCH_FILES or size + item.size > _BATCH_BYTES):
            yield files[start:place]
            start, size = place, 0
        size += item.size
    if start < len(files):
        yield files[start:]


def _content(data: DataPath, item: ListedFile) -> bytes:
    """Returns the content that the manifest tells of."""
    name = f"{data}/{item.file.path}"
    try:
        content, stat = _local(name, item.size) if isinstance(data, Path) else _remote(data / item.file.path)
    except OSError as error:
        raise _InputGone(f"{printable(name)}: cannot be read: {error.strerror}") from error
    same = bool(item.stat) and stat == item.stat and len(content) == item.size
    if not same and hashlib.sha256(content).hexdigest() != item.sha256:
        raise _InputGone(f"{printable(name)}: changed while it was being ingested")
    return content


def _local(name: str, size: int) -> tuple[bytes, str]:
    """Returns what a file holds, one byte more than it should have at most, and its stat when that was read."""
    # Not by Path.open: to make the path and the buffer takes as long as to read a small file.
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, size + 1)
        # Asked for behind the last byte: who writes to the file later does not change what was read.
        return content, stat_key(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _remote(path: DataPath) -> tuple[bytes, str]:
    with open_whole(path) as stream:
        return stream.read(), ""


def _parts(item: ListedFile, record: FileRecord) -> list[bytes]:
    # The id names the content, so that augmentation can be seeded by the record wherever it stands.
    return example_parts({**record.columns, "id": record_id(item.sha256)})


def record_id(sha256: str) -> int:
    """Returns the record's number: 63 bits of its content hash."""
    return int(sha256[:16], 16) >> 1
