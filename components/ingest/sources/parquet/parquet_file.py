"""Opens a Parquet file, for its footer or its rows, and checks that the counts in its footer agree.

Import this module before any Arrow data is opened: it imports pyarrow_hotfix, without which Arrow 10
unpickles, and so executes, what the metadata of a column holds (CVE-2023-47248).
"""

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
import pyarrow_hotfix  # type: ignore[import-untyped]  # noqa: F401 - its import is its effect

from components.errors import BadInput
from components.records.quarantine import printable

BATCH_ROWS = 8192
BATCH_BYTES = 8 << 20  # rows may hold images: then a batch has fewer
_BUFFER_BYTES = 1 << 16  # per column; without it whole column chunks are read, 5 times slower (measured)
_PICKLED = "arrow.py_extension_type"  # the type that pyarrow_hotfix forbids
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class Readable(Protocol):
    """A file that can be opened; `str` returns its name for messages."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Opens it."""


@contextlib.contextmanager
def opened(path: Readable) -> Iterator[pq.ParquetFile]:
    """Opens a file; whatever is wrong with it becomes a BadInput that names it."""
    with named(path), _raw(path) as raw, pq.ParquetFile(raw, buffer_size=_buffer_bytes(path)) as file:
        _check_counts(file)
        if not file.metadata.num_rows:
            raise BadInput(f"{printable(str(path))}: 0 examples in it; remove it, or write it again")
        yield file


@contextlib.contextmanager
def named(path: Readable) -> Iterator[None]:
    """Turns any error of Arrow into a BadInput that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, IndexError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(
            f"{printable(str(path))}: cannot be read as Parquet: {reason}; the file may be damaged: write it again"
        ) from error
    except RuntimeError as error:  # after the others: some errors of Arrow are of this type too
        if _PICKLED not in str(error):
            raise
        raise BadInput(
            f"{printable(str(path))}: a column has a Python extension type ({_PICKLED}), whose definition is code "
            "that reading would run; nothing of it was run: write the column as a plain Arrow type"
        ) from None


def _raw(path: Readable) -> pa.NativeFile:
    # Opened here, because Arrow accepts only paths that are UTF-8.
    return pa.OSFile(os.fsencode(path)) if isinstance(path, Path) else pa.PythonFile(path.open("rb"), "r")


def _buffer_bytes(path: Readable) -> int:
    """Returns how many bytes of a column are read at once; 0 for whole chunks, as requests to an address are slow."""
    return _BUFFER_BYTES if isinstance(path, Path) else 0


def _check_counts(file: pq.ParquetFile) -> None:
    """Compares all row counts in the footer: a reader trusts one of them, and rows would be lost silently."""
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    if sum(group.num_rows for group in groups) != file.metadata.num_rows:
        raise pa.ArrowInvalid("the footer's counts of rows differ")
    flat = [index for index in range(file.metadata.num_columns) if not file.schema.column(index).max_repetition_level]
    for group, index in itertools.product(groups, flat):
        if group.column(index).num_values != group.num_rows:
            raise pa.ArrowInvalid("the footer's counts of rows and of values differ")


def flat_columns(found: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Returns names and types of all columns, structs replaced by their children."""
    flat: list[tuple[str, pa.DataType]] = []
    for field in found:
        if pa.types.is_struct(field.type):
            flat += [(f"{field.name}.{child.name}", child.type) for child in field.type]
        elif not _PANDAS_INDEX.fullmatch(field.name):
            flat.append((field.name, field.type))
    return flat


class FileRows:
    """Rows of a file in order: what was decoded for one range is not decoded again for the next."""

    def __init__(self, file: pq.ParquetFile, start: int, stop: int, names: Sequence[str], most: int) -> None:
        """Prepares the row groups from that of `start` to that of `stop`, to decode `most` rows at once."""
        self._edges = np.cumsum([0, *(file.metadata.row_group(index).num_rows for index in range(file.num_row_groups))])
        self._groups = self._groups_of(start, stop)
        self._number = int(self._edges[self._groups.start])  # of the next row
        self._waiting: pa.RecordBatch | None = None  # decoded, not yet read
        self._batches = file.iter_batches(
            min(most, _batch_rows(file, self._groups)), list(self._groups), _wanted(file, names)
        )  # fmt: skip

    def has(self, start: int, stop: int) -> bool:
        """Whether these rows can still be read."""
        return start >= self._number and self._groups_of(start, stop) == self._groups

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows from start to stop, at most `BATCH_ROWS` at once; rows before start are skipped."""
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
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, row_bytes)))


def _wanted(file: pq.ParquetFile, names: Sequence[str]) -> list[str]:
    asked = set(names)
    wanted = [
        field.name for field in file.schema_arrow if asked & {name for name, _ in flat_columns(pa.schema([field]))}
    ]
    # Without a column a batch would have no row count.
    return wanted or [file.schema_arrow[0].name]
