"""Raw data with many records a file: what a source of rows has to offer.

    file ─► divide ─► ranges (bytes or rows, the same on any machine) ─► read ─► batches of columns, and bad rows

A range is what one Beam element reads and writes: no row crosses a shuffle, a big file keeps all workers busy, and a
retried bundle writes the same shards again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from components.storage.paths import DataPath


@dataclass(frozen=True)
class Range:
    """A part of one file, in the source's own unit: bytes of text, rows of an array."""

    path: str  # relative to the data folder
    start: int
    stop: int
    first: int  # number of its first row or line in the file, from 1
    size: int  # bytes, about


@dataclass(frozen=True)
class BadRow:
    """A row that cannot become a record."""

    position: str  # such as "line 12" or "row 7"
    reason: str
    raw: bytes = b""


@dataclass(frozen=True)
class RowBatch:
    """Rows as columns; integers, floats, booleans, strings, bytes, or lists of them. Missing values are null."""

    columns: pa.RecordBatch
    bad: Sequence[BadRow] = ()
    # Tells position and raw bytes of a row of `columns`, should it turn out to be bad later on; asked for seldom.
    describe: Callable[[int], tuple[str, bytes]] | None = field(default=None, compare=False, repr=False)


class RowSource(Protocol):
    """How one format of rows is read."""

    suffixes: tuple[str, ...]  # of file names, such as (".csv", ".csv.gz")

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns columns and types as the first rows show them; raises BadInput for a file without any."""

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Cuts a file into ranges of about `target` bytes; one range where the format cannot be cut."""

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads a range, a bounded batch at a time; every row of it comes out, as a record or as a bad row."""
