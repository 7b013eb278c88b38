"""Reads the images that rows refer to, a slice of rows at a time.

    rows ─► paths ─► in the data folder? ─► threads, one slice ahead: read, check ─► rows with images, bad rows

The path itself does not go into the record: a person finds the file by its row, and a model must not learn from names.
"""

import hashlib
import os
import posixpath
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from components.ingest.images import CheckedImage, checks
from components.ingest.images.checks import ImageChecker
from components.ingest.sources.rows import BadRow, Range, RowBatch
from components.ingest.survey import references
from components.ingest.survey.references import ReferencedImage
from components.records.quarantine import Rejected
from components.settings.ingest import Ingest
from components.storage.paths import DataPath

_SLICE_ROWS, _SLICE_BYTES = 512, 8 << 20  # enough to be worth encoding together, few enough to stay small in memory
_TASK_IMAGES = 32  # images per task of a thread
_AHEAD = 1  # slices that are read while another is written


@dataclass(frozen=True)
class RowImage:
    """An image that a row refers to, checked."""

    checked: CheckedImage
    sha256: str  # of the file; empty if it was not hashed


@dataclass(frozen=True)
class RowsWithImages:
    """Rows, with the image of each if rows refer to images."""

    columns: pa.RecordBatch
    bad: Sequence[BadRow] = ()
    images: Sequence[RowImage] = ()
    named_unlabelled: int = 0  # see LabelPolicy


@dataclass(frozen=True)
class _Slice:
    start: int
    found: Sequence[ReferencedImage | Rejected]  # of each row
    tasks: Sequence[Future[dict[str, RowImage | Rejected]]]

    def outcomes(self) -> list[RowImage | Rejected]:
        """Returns the image of each row, or why it has none, when all of them are read."""
        read = {path: image for task in self.tasks for path, image in task.result().items()}
        return [read[each.path] if isinstance(each, ReferencedImage) else each for each in self.found]


class ImageColumn:
    """Reads the images of one range of rows."""

    def __init__(
        self,
        part: Range,
        column: str,
        schema: pa.Schema,
        data: DataPath,
        settings: Ingest,
        known: Path | None,
        *,
        hashed: bool = True,
    ) -> None:
        """Takes the range, the column with the paths, and where they lead; no image is hashed if `hashed` is false."""
        self._settings, self._hashed = settings, hashed
        self._column, self._limit = column, settings.max_file_mb
        self._place = schema.get_field_index(column)
        self._folder, self._finder = posixpath.dirname(part.path), references.ImageFinder(data)
        self._checks = ImageChecker(known, settings)

    def __enter__(self) -> "ImageColumn":
        # Threads: reading, hashing and decoding release Python's lock.
        self._pool = ThreadPoolExecutor(max_workers=os.cpu_count())
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._checks.__exit__(*error)

    def read(self, batch: RowBatch) -> Iterator[RowsWithImages]:
        """Yields slices of a batch with their images."""
        found = [self._find(value) for value in batch.columns.column(self._place).to_pylist()]
        running: deque[_Slice] = deque()
        for start, stop in _slices([each.size if isinstance(each, ReferencedImage) else 0 for each in found]):
            running.append(_Slice(start, found[start:stop], self._start(found[start:stop])))
            if len(running) > _AHEAD:
                yield self._finish(batch, running.popleft())
        for each in running:
            yield self._finish(batch, each)

    def _find(self, value: str | None) -> ReferencedImage | Rejected:
        try:
            return self._finder.find(self._folder, value)
        except Rejected as reason:
            return reason

    def _start(self, found: Sequence[ReferencedImage | Rejected]) -> list[Future[dict[str, RowImage | Rejected]]]:
        """Starts tasks that read each image once, however many rows refer to it."""
        images = list({each.path: each for each in found if isinstance(each, ReferencedImage)}.values())
        tasks = [images[at : at + _TASK_IMAGES] for at in range(0, len(images), _TASK_IMAGES)]
        return [self._pool.submit(self._read_all, task) for task in tasks]

    def _read_all(self, images: Sequence[ReferencedImage]) -> dict[str, RowImage | Rejected]:
        return {image.path: self._read_one(image) for image in images}

    def _read_one(self, image: ReferencedImage) -> RowImage | Rejected:
        if image.size > self._limit << 20:
            return Rejected(f"image {image.path!r}: {image.size:,} bytes, more than max_file_mb = {self._limit}")
        try:
            content = references.read(image, self._limit << 20)
            if not self._hashed:
                return RowImage(checks.check(content, self._settings, hashed=False), "")
            sha256 = hashlib.sha256(content).hexdigest()
            return RowImage(self._checks.check(content, sha256), sha256)
        except Rejected as reason:
            return Rejected(f"image {image.path!r}: {reason}")
        except OSError as error:
            return Rejected(f"image {image.path!r} cannot be read: {error.strerror}")

    def _finish(self, batch: RowBatch, part: _Slice) -> RowsWithImages:
        outcomes = part.outcomes()
        bad = [
            batch.bad_row(part.start + row, f"column {self._column}: {outcome}")
            for row, outcome in enumerate(outcomes)
            if isinstance(outcome, Rejected)
        ]
        images = [outcome for outcome in outcomes if isinstance(outcome, RowImage)]
        rows = batch.columns.slice(part.start, len(outcomes))
        if bad:
            rows = rows.filter(pa.array([isinstance(outcome, RowImage) for outcome in outcomes]))
        return RowsWithImages(rows, bad, images)


def _slices(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows that are bounded in rows and in bytes of their images."""
    start, total = 0, 0
    for row, size in enumerate(sizes):
        if row > start and (row - start == _SLICE_ROWS or total + size > _SLICE_BYTES):
            yield start, row
            start, total = row, 0
        total += size
    if start < len(sizes):
        yield start, len(sizes)
