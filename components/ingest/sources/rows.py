"""Sources whose files hold many records each: CSV, JSON Lines, Parquet, NumPy arrays, TFRecords.

    file ─► divide ─► ranges (of bytes or rows, the same on any machine) ─► read ─► batches of columns, and bad rows

One Beam element reads and writes one range: no row crosses a shuffle, a big file keeps all workers busy, and a retried
bundle writes the same shards again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from components.errors import BadInput
from components.records.quarantine import RAW_LIMIT, printable
from components.storage.paths import DataPath

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

MAX_ROW = 1 << 30  # bytes, at most, whatever the settings: protobuf allows 2 GB per record
Limited = TypeVar("Limited", bound="LimitedRows")
WHOLE = 1 << 62  # target bytes of `divide` that keep a file in one range


@dataclass(frozen=True)
class Range:
    """A part of one file, in the unit of the source: bytes of text, or rows of an array."""

    path: str  # relative to the data folder
    start: int
    stop: int
    first: int  # number of its first row or line in the file, from 1
    size: int  # approximate bytes


@dataclass(frozen=True)
class BadRow:
    """A row that cannot become a record."""

    position: str  # such as "line 12" or "row 7"
    reason: str
    raw: bytes = b""

    @staticmethod
    def of(described: tuple[str, bytes], reason: str) -> "BadRow":
        """Returns a bad row from its position and raw bytes, of which up to RAW_LIMIT are kept."""
        return BadRow(described[0], reason, described[1][:RAW_LIMIT])


@dataclass(frozen=True)
class RowBatch:
    """Rows as columns: integers, floats, booleans, strings, bytes, or lists of them. Missing values are null."""

    columns: pa.RecordBatch
    bad: Sequence[BadRow] = ()
    # Returns position and raw bytes of a row of `columns` that is found to be bad later; rarely called.
    describe: Callable[[int], tuple[str, bytes]] | None = field(default=None, compare=False, repr=False)
    # Returns the number of each row of `columns` in its file, from 1; of a text format, that of its first line.
    numbers: Callable[[], npt.NDArray[np.int64]] | None = field(default=None, compare=False, repr=False)

    def bad_row(self, row: int, reason: str) -> BadRow:
        """Returns a row of `columns` as a bad one, with its position and text."""
        if self.describe is not None:
            return BadRow.of(self.describe(row), reason)
        return BadRow.of(("", orjson.dumps(self.columns.slice(row, 1).to_pylist()[0], default=repr)), reason)


@dataclass(frozen=True)
class Decision:
    """What a source decided about its files, in one line for the user; empty if there was nothing to decide."""

    text: str = ""
    is_clear: bool = True  # otherwise it is a warning


class RowSource(Protocol):
    """Reads rows."""

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns columns and types, inferred from the first rows; raises BadInput for a file without rows."""

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Divides a file into ranges of about `target` bytes; one range if the format cannot be divided."""

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads a range in bounded batches; yields every row once, in a batch or as a bad row."""


class RowFormat(RowSource, Protocol):
    """Reads one format of rows, with default settings."""

    def configure(self, files: Sequence[DataPath], settings: "Ingest") -> tuple[RowSource, Decision]:
        """Returns the source for these files and settings, and what it decided."""


@dataclass(frozen=True)
class LimitedRows:
    """A format of rows whose only setting is the limit of a row."""

    max_row: int = MAX_ROW  # bytes
    only_schema: bool = False  # whether columns that the schema lacks are ignored; else they are an error

    def configure(self: Limited, files: Sequence[DataPath], settings: "Ingest") -> tuple[Limited, Decision]:
        """Applies the limit of a row."""
        del files
        return replace(self, max_row=settings.max_row_mb << 20), Decision()


@dataclass(frozen=True)
class Sample:
    """The first rows of a file, read when they are first needed."""

    source: RowSource
    path: DataPath
    schema: pa.Schema

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The first batch that is not empty."""
        for part in self.source.divide(self.path, self.path.name, WHOLE):
            for batch in self.source.read(self.path, part, self.schema):
                if batch.columns.num_rows:
                    return batch.columns
        return pa.RecordBatch.from_pylist([], schema=self.schema)

    def column(self, name: str) -> pa.Array:
        """Returns the values of a column in the first rows."""
        return self.rows.column(self.schema.get_field_index(name))


def too_large(path: object, position: str, size: str, limit: int) -> BadInput:
    """Returns an error for a row that is larger than `ingest.max_row_mb`."""
    return bad_file(
        path,
        f"{position} has {size}, more than ingest.max_row_mb = {limit >> 20}; "
        "check the file, or raise the setting if such rows are expected",
    )


def bad_file(path: object, reason: str) -> BadInput:
    """Returns an error for a file that cannot be read as a whole."""
    return BadInput(f"{printable(str(path))}: {reason}")
