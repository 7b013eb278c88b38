"""Rows get the images that they refer to, a slice of rows at a time.

    rows ─► paths ─► found below the data folder? ─► threads, a slice ahead: read, check ─► rows with images, bad rows

The path itself is not kept: a person finds the file by its row, and a model must not learn from names.
"""

import hashlib
import os
import posixpath
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa

from components.ingest.images import CheckedImage
from components.ingest.images.checks import Checks
from components.ingest.sources import Rejected
from components.ingest.sources.rows import BadRow, Range, RowBatch
from components.ingest.survey import references
from components.ingest.survey.references import ReferencedImage
from components.records.quarantine import RAW_LIMIT
from components.settings.ingest import Ingest
from components.storage.paths import DataPath

_ROWS, _BYTES = 512, 8 << 20  # a slice: enough to be worth encoding together, few enough to stay small in memory
_TASK = 32  # images that a thread is handed at once
_AHEAD = 1  # slices that are read while another is written


@dataclass(frozen=True)
class Shot:
    """A image that may be trained on."""

    image: CheckedImage
    sha256: str  # of the file


@dataclass(frozen=True)
class Filled:
    """Rows with all that belongs to them."""

    columns: pa.RecordBatch
    bad: Sequence[BadRow] = ()
    shots: Sequence[Shot] = ()  # of each row, if rows refer to images


@dataclass(frozen=True)
class _Slice:
    start: int
    found: Sequence[ReferencedImage | Rejected]  # of each row
    tasks: Sequence[Future[dict[str, Shot | Rejected]]]

    def ends(self) -> list[Shot | Rejected]:
        """Returns what became of each row's image, when all of them are read."""
        shots = {path: shot for task in self.tasks for path, shot in task.result().items()}
        return [shots[each.path] if isinstance(each, ReferencedImage) else each for each in self.found]


class Images:
    """Fills images into the rows of one range."""

    def __init__(
        self, part: Range, column: str, schema: pa.Schema, data: DataPath, settings: Ingest, checks: Path | None
    ) -> None:
        self._column, self._limit = column, settings.max_file_mb
        self._place = schema.get_field_index(column)
        self._folder, self._finder = posixpath.dirname(part.path), references.finder(data)
        self._checks = Checks(checks, settings)

    def __enter__(self) -> "Images":
        # Reading, hashing and decoding all release the interpreter's lock.
        self._pool = ThreadPoolExecutor(max_workers=os.cpu_count())
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._checks.__exit__(*error)

    def fill(self, batch: RowBatch) -> Iterator[Filled]:
        """Yields slices of a batch with their images."""
        found = [self._find(value) for value in batch.columns.column(self._place).to_pylist()]
        running: deque[_Slice] = deque()
        for start, stop in _slices([each.size if isinstance(each, ReferencedImage) else 0 for each in found]):
            running.append(_Slice(start, found[start:stop], self._ask(found[start:stop])))
            if len(running) > _AHEAD:
                yield self._filled(batch, running.popleft())
        for some in running:
            yield self._filled(batch, some)

    def _find(self, value: str | None) -> ReferencedImage | Rejected:
        try:
            return self._finder.find(self._folder, value)
        except Rejected as reason:
            return reason

    def _ask(self, found: Sequence[ReferencedImage | Rejected]) -> list[Future[dict[str, Shot | Rejected]]]:
        """Has each image read and checked once, however many rows refer to it."""
        wanted = list({each.path: each for each in found if isinstance(each, ReferencedImage)}.values())
        return [self._pool.submit(self._read, wanted[at : at + _TASK]) for at in range(0, len(wanted), _TASK)]

    def _read(self, images: Sequence[ReferencedImage]) -> dict[str, Shot | Rejected]:
        return {picture.path: self._shot(picture) for picture in images}

    def _shot(self, picture: ReferencedImage) -> Shot | Rejected:
        if picture.size > self._limit << 20:
            return Rejected(f"image {picture.path!r}: {picture.size:,} bytes, more than max_file_mb = {self._limit}")
        try:
            content = references.read(picture, self._limit << 20)
            sha256 = hashlib.sha256(content).hexdigest()
            return Shot(self._checks.check(content, sha256), sha256)
        except Rejected as reason:
            return Rejected(f"image {picture.path!r}: {reason}")
        except OSError as error:
            return Rejected(f"image {picture.path!r} cannot be read: {error.strerror}")

    def _filled(self, batch: RowBatch, some: _Slice) -> Filled:
        ends = some.ends()
        bad = [
            describe(batch, some.start + row, f"column {self._column}: {end}")
            for row, end in enumerate(ends)
            if isinstance(end, Rejected)
        ]
        shots = [end for end in ends if isinstance(end, Shot)]
        rows = batch.columns.slice(some.start, len(ends))
        if bad:
            rows = rows.filter(pa.array([isinstance(end, Shot) for end in ends]))
        return Filled(rows, bad, shots)


def describe(batch: RowBatch, row: int, reason: str) -> BadRow:
    """Returns a good row of a batch as a bad one."""
    if batch.describe is not None:
        position, raw = batch.describe(row)
    else:
        position, raw = "", orjson.dumps(batch.columns.slice(row, 1).to_pylist()[0], default=repr)
    return BadRow(position, reason, raw[:RAW_LIMIT])


def _slices(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows with few enough bytes."""
    start, total = 0, 0
    for row, size in enumerate(sizes):
        if row > start and (row - start == _ROWS or total + size > _BYTES):
            yield start, row
            start, total = row, 0
        total += size
    if start < len(sizes):
        yield start, len(sizes)
