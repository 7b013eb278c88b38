"""One Parquet file, opened for its footer or its rows, and held against its own counts."""

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import BadInput
from components.records.quarantine import printable

_BATCH_ROWS = 8192
_BATCH_BYTES = 8 << 20  # rows may hold images: then fewer make a batch
_BUFFER_BYTES = 1 << 16  # a column; without it whole column chunks are read, and 5x slower (measured)
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class Readable(Protocol):
    """A file that can be opened; its text is its name for people."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Opens it."""


@contextlib.contextmanager
def opened(path: Readable) -> Iterator[pq.ParquetFile]:
    """Opens a file; whatever is wrong with it becomes one sentence that names it."""
    with named(path), _raw(path) as raw, pq.ParquetFile(raw, buffer_size=_buffer_bytes(path)) as file:
        _check_counts(file)
        if not file.metadata.num_rows:
            raise BadInput(f"{printable(str(path))}: 0 examples in it; remove it or write it again")
        yield file


@contextlib.contextmanager
def named(path: Readable) -> Iterator[None]:
    """Makes one sentence that names the file of whatever turns out to be wrong with it."""
    try:
        yield
    except (pa.ArrowException, OSError, IndexError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(
            f"{printable(str(path))}: cannot be read as Parquet: {reason}; it may be damaged: write it again"
        ) from error


def _raw(path: Readable) -> pa.NativeFile:
    # Not by its path: Arrow takes only names that are UTF-8.
    return pa.OSFile(os.fsencode(path)) if isinstance(path, Path) else pa.PythonFile(path.open("rb"), "r")


def _buffer_bytes(path: Readable) -> int:
    """Returns how much of a column is read at once; at an address a request is dear, so all of a chunk is."""
    return _BUFFER_BYTES if isinstance(path, Path) else 0


def _check_counts(file: pq.ParquetFile) -> None:
    """Compares all counts of rows in the footer: a reader trusts the one it meets, and rows would be lost unseen."""
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    if sum(group.num_rows for group in groups) != file.metadata.num_rows:
        raise pa.ArrowInvalid("the footer's counts of rows differ")
    flat = [index for index in range(file.metadata.num_columns) if not file.schema.column(index).max_repetition_level]
    for group, index in itertools.product(groups, flat):
        if group.column(index).num_values != group.num_rows:
            raise pa.ArrowInvalid("the footer's counts of rows and of values differ")


def flat_columns(found: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Returns names and types with the children of structs in their parent's place."""
    flat: list[tuple[str, pa.DataType]] = []
    for field in found:
        if pa.types.is_struct(field.type):
            flat += [(f"{field.name}.{child.name}", child.type) for child in field.type]
        elif not _PANDAS_INDEX.fullmatch(field.name):
            flat.append((field.name, field.type))
    return flat


class Rows:
    """Rows of a file, in their order: what was decoded for one range is not decoded again for the next."""

    def __init__(self, file: pq.ParquetFile, start: int, stop: int, names: Sequence[str]) -> None:
        """Begins with the row group that `start` is in; the last one is that of `stop`."""
        self._edges = np.cumsum([0, *(file.metadata.row_group(index).num_rows for index in range(file.num_row_groups))])
        self._groups = self._groups_of(start, stop)
        self._number = int(self._edges[self._groups.start])  # of the first row that is still to come
        self._waiting: pa.RecordBatch | None = None  # decoded already, and not yet asked for
        self._batches = file.iter_batches(
            _batch_rows(file, self._groups), list(self._groups), _wanted(file, names)
        )  # fmt: skip

    def has(self, start: int, stop: int) -> bool:
        """Whether these rows are still to come."""
        return start >= self._number and self._groups_of(start, stop) == self._groups

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows from start to stop, at most `_BATCH_ROWS` at once; those before them are passed over."""
        while self._number < stop:
            batch = self._waiting if self._waiting is not None else next(self._batches, None)
            if batch is None:
                return
            above, below = max(start - self._number, 0), min(stop - self._number, batch.num_rows)
            self._waiting = batch.slice(below) if below < batch.num_rows else None
            self._number += below
            if below > above:
                yield batch.slice(above, below - above)

    def _groups_of(self, start: int, stop: int) -> range:
        first = int(np.searchsorted(self._edges, start, side="right")) - 1
        return range(first, int(np.searchsorted(self._edges, stop, side="left")))


def _batch_rows(file: pq.ParquetFile, groups: range) -> int:
    found = [file.metadata.row_group(index) for index in groups]
    row_bytes: int = sum(group.total_byte_size for group in found) // max(1, sum(group.num_rows for group in found))
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes)))


def _wanted(file: pq.ParquetFile, names: Sequence[str]) -> list[str]:
    asked = set(names)
    wanted = [
        field.name for field in file.schema_arrow if asked & {name for name, _ in flat_columns(pa.schema([field]))}
    ]
    # Without any column a batch has no rows to count.
    return wanted or [file.schema_arrow[0].name]
