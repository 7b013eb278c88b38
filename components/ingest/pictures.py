"""Rows get the pictures that they refer to, a slice of rows at a time.

    rows ─► paths ─► found below the data folder? ─► threads: read, check ─► rows with pictures, and bad rows

The path itself is not kept: a person finds the file by its row, and a model must not learn from names.
"""

import hashlib
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import orjson
import pyarrow as pa

from components.ingest import infer, references
from components.ingest.references import Picture
from components.ingest.rows import RAW_LIMIT, BadRow, Range, RowBatch
from components.ingest.sources import Record, Rejected, SourceFile
from components.ingest.sources.image_folder import SOURCE
from components.places import DataPath
from components.settings import Ingest

_ROWS = 128  # a slice: enough to keep the threads busy, …
_BYTES = 32 << 20  # … and few enough to stay small in memory


@dataclass(frozen=True)
class Shot:
    """A picture that may be trained on."""

    record: Record
    sha256: str  # of the file


@dataclass(frozen=True)
class Filled:
    """Rows with all that belongs to them."""

    columns: pa.RecordBatch
    bad: Sequence[BadRow] = ()
    shots: Sequence[Shot] = ()  # of each row, if rows refer to pictures


class Pictures:
    """Fills pictures into the rows of one range."""

    def __init__(self, part: Range, column: str, schema: pa.Schema, data: DataPath, settings: Ingest) -> None:
        self._column, self._settings = column, settings
        self._place, self._name = schema.get_field_index(column), infer.image_name(schema, column)
        self._folder, self._finder = posixpath.dirname(part.path), references.finder(data)

    def __enter__(self) -> "Pictures":
        # Reading, hashing and decoding all release the interpreter's lock.
        self._pool = ThreadPoolExecutor(max_workers=os.cpu_count())
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def fill(self, batch: RowBatch) -> Iterator[Filled]:
        """Yields slices of a batch with their pictures."""
        found = [self._find(value) for value in batch.columns.column(self._place).to_pylist()]
        for start, stop in _slices([each.size if isinstance(each, Picture) else 0 for each in found]):
            yield self._filled(batch, start, found[start:stop])

    def _find(self, value: str | None) -> Picture | Rejected:
        try:
            return self._finder.find(self._folder, value)
        except Rejected as reason:
            return reason

    def _filled(self, batch: RowBatch, start: int, found: Sequence[Picture | Rejected]) -> Filled:
        shots = self._shots({each.path: each for each in found if isinstance(each, Picture)})
        ends = [shots[each.path] if isinstance(each, Picture) else each for each in found]
        good = [row for row, end in enumerate(ends) if isinstance(end, Shot)]
        bad = [
            describe(batch, start + row, f"column {self._column}: {end}")
            for row, end in enumerate(ends)
            if isinstance(end, Rejected)
        ]
        kept = [end for end in ends if isinstance(end, Shot)]
        rows = batch.columns.slice(start, len(found)).take(pa.array(good, pa.int64()))
        return Filled(self._with_pictures(rows, kept), bad, kept)

    def _shots(self, wanted: Mapping[str, Picture]) -> dict[str, Shot | Rejected]:
        """Reads and checks each picture once, however many rows refer to it."""
        return dict(zip(wanted, self._pool.map(self._shot, wanted.values()), strict=True))

    def _shot(self, picture: Picture) -> Shot | Rejected:
        limit = self._settings.max_file_mb
        if picture.size > limit << 20:
            return Rejected(f"image {picture.path!r}: {picture.size:,} bytes, more than max_file_mb = {limit}")
        try:
            content = references.read(picture, limit << 20)
            record = SOURCE.read(SourceFile(picture.path, ""), content, self._settings)
        except Rejected as reason:
            return Rejected(f"image {picture.path!r}: {reason}")
        except OSError as error:
            return Rejected(f"image {picture.path!r} cannot be read: {error.strerror}")
        return Shot(record, hashlib.sha256(content).hexdigest())

    def _with_pictures(self, rows: pa.RecordBatch, shots: Sequence[Shot]) -> pa.RecordBatch:
        contents = pa.array([shot.record.columns["image"] for shot in shots], pa.large_binary())
        columns, names = list(rows.columns), list(rows.schema.names)
        columns[self._place], names[self._place] = contents, self._name
        return pa.RecordBatch.from_arrays(columns, names=names)


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
