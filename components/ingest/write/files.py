"""Writes one shard of records that are files.

    files ─► read, compare with the survey, check ─► encode ─► TFRecord ─► renamed when it is whole
                              └─► quarantined, with the reason and the first bytes of the file

A file is the one that was surveyed if its stat is the same; only if the stat cannot decide it is hashed again.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from components.ingest.images.checks import ImageChecker
from components.ingest.sources import FileRecord, FileSource, ImageSource
from components.ingest.survey.listing import ListedFile
from components.ingest.write.encode_record import example_parts
from components.ingest.write.report import ShardCounts, ShardReport
from components.ingest.write.shards import ShardFiles
from components.records import shard_files
from components.records.quarantine import Quarantined, Rejected, printable
from components.records.tfrecord import TFRecordWriter
from components.storage.hashing import stat_key
from components.storage.paths import DataPath

if TYPE_CHECKING:
    from components.settings.ingest import Ingest
    from components.storage.location import Location


def write_shard(
    shard: ShardFiles,
    source: FileSource,
    data: DataPath,
    artifact: "Location",
    settings: "Ingest",
    checks: Path | None = None,
) -> ShardReport:
    """Writes one shard and reports what happened to each of its files.

    Args:
        shard: the files.
        source: reads them.
        data: the folder that their paths are relative to.
        artifact: the folder that the shard's name is relative to.
        settings: of the ingest.
        checks: cache of image checks.
    """
    counts, quarantined = ShardCounts(), list[Quarantined]()
    try:
        with (
            ImageChecker(checks, settings) as known,
            shard_files.publish(artifact, shard.name) as temporary,
            TFRecordWriter(temporary) as writer,
        ):
            reader = _FileReader(source, data, settings, known)
            writer.write(_examples(reader, shard, counts, quarantined))
    except _InputChangedError as error:
        return ShardReport(shard.split, shard.name, failure=str(error))
    return replace(counts.report(shard.split, shard.name, writer), quarantined=tuple(quarantined))


def _examples(
    reader: "_FileReader", shard: ShardFiles, counts: ShardCounts, quarantined: list[Quarantined]
) -> Iterator[list[bytes]]:
    """Yields the files that are good as serialized records, and counts all of them."""
    reader.expect(shard)
    for item in shard.files:
        outcome = reader.read(item)
        if isinstance(outcome, Quarantined):
            quarantined.append(outcome)
            continue
        counts.classes[item.file.label] += 1
        counts.add(item.sha256, outcome.side, outcome.changed, outcome.perceptual_hash)
        # The id is made from the content, so that augmentation is seeded by the record, whatever its shard.
        yield example_parts({**outcome.columns, "id": record_id(item.sha256)})


class _InputChangedError(Exception):
    """A surveyed file was deleted, or its content has changed."""


class _FileReader:
    """Reads files and checks them."""

    def __init__(self, source: FileSource, data: DataPath, settings: "Ingest", checks: ImageChecker) -> None:
        self._source, self._data, self._settings, self._checks = source, data, settings, checks
        self._images = source if isinstance(source, ImageSource) else None

    def expect(self, shard: ShardFiles) -> None:
        """Looks up all images of a shard in the cache of checks at once, which is faster than one by one."""
        if self._images is not None:
            self._checks.expect(item.sha256 for item in shard.files)

    def read(self, item: ListedFile) -> FileRecord | Quarantined:
        """Returns a file as a record, or the reason why it is none."""
        path, limit = printable(item.file.path), self._settings.max_file_mb
        if item.size > limit << 20:
            return Quarantined(path, f"{item.size:,} bytes, more than max_file_mb = {limit}")
        content = _content(self._data, item)
        try:
            if self._images is not None:
                return self._images.record(item.file, self._checks.check(content, item.sha256))
            return self._source.read(item.file, content, self._settings)
        except Rejected as reason:
            return Quarantined.of(path, str(reason), reason.position, content)


def _content(data: DataPath, item: ListedFile) -> bytes:
    """Returns the content of a file if it is the one that was surveyed."""
    name = f"{data}/{item.file.path}"
    try:
        content, stat = _read_local(name, item.size) if isinstance(data, Path) else _read_remote(data / item.file.path)
    except OSError as error:
        raise _InputChangedError(f"{printable(name)}: cannot be read: {error.strerror}") from error
    same = bool(item.stat) and stat == item.stat and len(content) == item.size
    if not same and hashlib.sha256(content).hexdigest() != item.sha256:
        raise _InputChangedError(f"{printable(name)}: changed while it was being ingested")
    return content


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


def _read_remote(path: DataPath) -> tuple[bytes, str]:
    return path.read_bytes(), ""


def record_id(sha256: str) -> int:
    """Returns the id of a record: 63 bits of its content hash."""
    return int(sha256[:16], 16) >> 1
