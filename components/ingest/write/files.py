"""Writes one work unit of records that are files: one shard for each split that it has records of.

    files ─► read, compare with the survey ─► hash ─► split ─► check ─► encode ─► TFRecord ─► renamed when it is whole
                                                                 └─► quarantined, with the reason and the first bytes

A file is the one that was surveyed if its stat is the same; only if the stat cannot decide it is compared by its hash.
A listing has one class after the other: the files of a unit are read in the order of the hashes of their paths, so that
classes are mixed within every shard and a small shuffle buffer is enough.
"""

import contextlib
import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from components.ingest.images.checks import ImageChecker
from components.ingest.sources import FileRecord, FileSource, ImageSource
from components.ingest.survey.listed_files import ListedFile, ListedFiles
from components.ingest.write import shards
from components.ingest.write.encode_record import example_parts
from components.ingest.write.report import ShardCounts, ShardReport
from components.records import checksum, shard_files
from components.records.quarantine import Quarantined, Rejected, printable
from components.storage import transfers
from components.storage.hashing import stat_key
from components.storage.objects import ObjectPath
from components.storage.paths import DataPath

if TYPE_CHECKING:
    from components.ingest.write.strata import Rows
    from components.settings.ingest import Ingest
    from components.storage.location import Location

_FINGERPRINT = struct.Struct("<QII")  # content, label, number: as fingerprints.ROW
_AT_ONCE, _BYTES_AT_ONCE = 16, 64 << 20  # files that are requested from a store together, and their size


@dataclass(frozen=True)
class UnitReader:
    """Reads the files of one work unit.

    Attributes:
        files: the files.
        numbers: their numbers in the listing.
        source: reads them.
        data: the folder that their paths are relative to.
        settings: of the ingest.
        checks: cache of image checks.
    """

    files: ListedFiles
    numbers: Sequence[int]
    source: FileSource
    data: DataPath
    settings: "Ingest"
    checks: Path | None = None

    def places(self) -> "Rows":
        """Returns place and class of every file that becomes a record, for stratified splits.

        Files with a known hash are not read, nor are those that are too large.
        """
        from components.ingest.write import strata

        salt, limit = self.settings.splits.salt, self.settings.max_file_mb << 20
        small = [(number, item) for number, item in zip(self.numbers, self.files, strict=True) if item.size <= limit]
        unknown = [each for each in small if not each[1].sha256]
        digests = chain(
            ((item, item.sha256) for _, item in small if item.sha256),
            ((item, content[1]) for _, item, content in self.contents(unknown) if content),
        )
        return strata.as_rows(
            [(shards.place_of(each, salt), strata.class_of(item.file.label)) for item, each in digests]
        )

    def contents(
        self, listed: Sequence[tuple[int, ListedFile]]
    ) -> Iterator[tuple[int, ListedFile, tuple[bytes, str] | None]]:
        """Yields files with content and SHA-256; None instead if a file is larger than `max_file_mb`: it is not read.

        Local files are read one by one, those of a store many at a time, bounded in bytes.
        """
        limit, is_local = self.settings.max_file_mb << 20, isinstance(self.data, Path)
        for group in _groups(listed, limit, is_local):
            small = [item for _, item in group if item.size <= limit]
            found = iter(_contents(self.data, small))
            for number, item in group:
                yield number, item, next(found) if item.size <= limit else None

    def in_order(self) -> list[tuple[int, ListedFile]]:
        """Returns number and file, in the order of the records."""
        found = list(zip(self.numbers, self.files, strict=True))
        found.sort(key=lambda each: hashlib.sha256(os.fsencode(each[1].file.path)).digest())
        return found


def write_unit(reader: UnitReader, end: str, artifact: "Location") -> list[ShardReport]:
    """Writes the shards of one work unit and reports what happened to each of its files.

    Args:
        reader: of the files.
        end: end of the names of its shards, such as "00003-of-00024".
        artifact: the folder that the shards go to.
    """
    quarantined, split_of = list[Quarantined](), _splitter(reader.settings, artifact)
    made: dict[str, _Counted] = {}
    try:
        with ImageChecker(reader.checks, reader.settings) as known, contextlib.ExitStack() as stack:
            written = shards.SplitShards(stack, artifact, end)
            for each in _read_all(reader, known):
                if isinstance(each.outcome, Quarantined):
                    quarantined.append(each.outcome)
                    continue
                split = split_of(each.sha256, each.item.file.label)
                made.setdefault(split, _Counted()).add(each, each.outcome)
                # The id is made from the content, so that augmentation is seeded by the record, whatever its shard.
                record = example_parts({**each.outcome.columns, "id": record_id(each.sha256)})
                written.of(split).write([record])
        fingerprints = {split: each.write_fingerprints(artifact, written.name(split)) for split, each in made.items()}
    except InputChangedError as error:
        return [ShardReport(failure=str(error))]
    splits = [split for split, _ in reader.settings.splits.fractions() if split in made]
    found = [
        made[split].counts.report(split, written.name(split), written.writers[split], fingerprints[split])
        for split in splits
    ]
    first, *others = found or [ShardReport()]
    return [replace(first, quarantined=tuple(quarantined)), *others]


class InputChangedError(Exception):
    """A surveyed file was deleted, or its content has changed."""


@dataclass(frozen=True)
class _ReadFile:
    """A file that was read."""

    number: int  # in the listing
    item: ListedFile
    sha256: str
    outcome: FileRecord | Quarantined


class _Counted:
    """Counts the records of one shard, and keeps their fingerprints."""

    def __init__(self) -> None:
        self.counts, self._rows = ShardCounts(), list[tuple[int, int, int]]()

    def add(self, read: _ReadFile, record: FileRecord) -> None:
        """Counts one record."""
        label = read.item.file.label
        self.counts.classes[label] += 1
        self.counts.add(read.sha256, record.side, record.changed, record.perceptual_hash, read.number)
        self._rows.append((int(read.sha256[:16], 16), zlib.crc32(label.encode()), read.number))

    def write_fingerprints(self, artifact: "Location", shard: str) -> str:
        """Writes one sorted run, as `fingerprints.FingerprintWriter` does, without NumPy; returns the checksum."""
        self._rows.sort()
        content = b"".join(_FINGERPRINT.pack(*row) for row in [(0, 0, len(self._rows)), *self._rows])
        with shard_files.publish(artifact, shards.fingerprints_of(shard)) as temporary:
            temporary.write_bytes(content)
        return checksum.of_bytes(content)


def _splitter(settings: "Ingest", artifact: "Location") -> Callable[[str, str], str]:
    """Returns a function that decides the split of a content hash and a class."""
    splits = settings.splits
    if not splits.stratify:
        return lambda sha256, _: shards.split_of(sha256, splits)
    from components.ingest.write import strata

    decided = strata.Strata.load(artifact)
    return lambda sha256, label: decided.split_of(shards.place_of(sha256, splits.salt), strata.class_of(label))


def _read_all(reader: UnitReader, checks: ImageChecker) -> Iterator[_ReadFile]:
    """Yields the files of a unit as records, or the reason why they are none."""
    images = reader.source if isinstance(reader.source, ImageSource) else None
    listed, limit = reader.in_order(), reader.settings.max_file_mb
    if images is not None:  # all at once, which is faster than one by one
        checks.expect(item.sha256 for _, item in listed if item.sha256)

    def outcome(item: ListedFile, content: bytes, sha256: str) -> FileRecord | Quarantined:
        try:
            if images is not None:
                return images.record(item.file, checks.check(content, sha256))
            return reader.source.read(item.file, content, reader.settings)
        except Rejected as reason:
            return Quarantined.of(printable(item.file.path), str(reason), reason.position, content)

    for number, item, found in reader.contents(listed):
        if found is None:
            reason = f"{item.size:,} bytes, more than max_file_mb = {limit}"
            yield _ReadFile(number, item, "", Quarantined(printable(item.file.path), reason))
        else:
            yield _ReadFile(number, item, found[1], outcome(item, *found))


def _groups(
    listed: Sequence[tuple[int, ListedFile]], limit: int, is_local: bool
) -> Iterator[Sequence[tuple[int, ListedFile]]]:
    """Yields files that are read together: local ones one by one, those of a store many at a time, bounded in bytes."""
    group: list[tuple[int, ListedFile]] = []
    size = 0
    for each in listed:
        here = min(each[1].size, limit)
        if group and (is_local or len(group) == _AT_ONCE or size + here > _BYTES_AT_ONCE):
            yield group
            group, size = [], 0
        group.append(each)
        size += here
    if group:
        yield group


def _contents(data: DataPath, files: Sequence[ListedFile]) -> list[tuple[bytes, str]]:
    if isinstance(data, Path):
        return [_content(data, item) for item in files]
    return transfers.each(lambda item: _content(data, item), files, _AT_ONCE)


def _content(data: DataPath, item: ListedFile) -> tuple[bytes, str]:
    """Returns the content of a file and its SHA-256, if it is the file that was surveyed."""
    name = f"{data}/{item.file.path}"
    try:
        content, stat = (
            _read_local(name, item.size) if isinstance(data, Path) else _read_remote(data / item.file.path, item)
        )
    except TimeoutError:  # the store is away: the file is not bad
        raise
    except OSError as error:
        raise InputChangedError(f"{printable(name)}: cannot be read: {error.strerror}") from error
    same = bool(item.stat) and stat == item.stat and len(content) == item.size
    sha256 = item.sha256 if same and item.sha256 else hashlib.sha256(content).hexdigest()
    if not same and sha256 != item.sha256:
        raise InputChangedError(f"{printable(name)}: changed while it was being ingested")
    return content, sha256


def _read_local(name: str, size: int) -> tuple[bytes, str]:
    """Returns at most one byte more than the file should have, and its stat after that was read."""
    # Not by Path.open: making the path and the buffer takes as long as reading a small file.
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, size + 1)
        while len(content) < size and (more := os.read(descriptor, size + 1 - len(content))):
            content += more  # one call returns at most 2 GB, and less from some filesystems
        # After the last byte was read: a later write to the file does not change what was read.
        return content, stat_key(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _read_remote(path: DataPath, item: ListedFile) -> tuple[bytes, str]:
    """Returns the content and the stat of the version that was read; empty if the store has none.

    Nothing is read of an object with another stat than in the survey, unless a hash can show that it is the same.
    """
    if isinstance(path, ObjectPath):
        content, stat = path.read_version(lambda stat: bool(item.sha256) or stat_key(stat) == item.stat)
        return content, stat_key(stat)
    return path.read_bytes(), ""


def record_id(sha256: str) -> int:
    """Returns the id of a record: 63 bits of its content hash."""
    return int(sha256[:16], 16) >> 1
