"""The first line of a CSV file: its delimiter, the names of the columns, and where the rows begin.

first block ─► delimiter ─┬─ with a header: names from the first line, rows after it
                          └─ without: `ingest.names`, or column_1, column_2 …; rows from the first line on
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from components.errors import BadInput, SettingsError
from components.ingest.sources import text_ranges
from components.ingest.sources.csv import csv_cells
from components.ingest.sources.csv.csv_records import BLANK, NOT_CLOSED, CsvRecords
from components.ingest.sources.record_ends import find_quoted_ends
from components.ingest.sources.rows import Range, bad_file
from components.ingest.sources.text_ranges import Block, RecordFormat
from components.storage.paths import DataPath

HEAD = 64 << 10  # bytes of text that are read to find the header
_OR_DATA = ", or --set ingest.header=no if the first line is data"
_OTHER_DELIMITERS = (b";", b"\t")  # for a first line without commas


@dataclass(frozen=True)
class CsvFormat:
    """How all files of a data set are read."""

    max_row: int
    has_header: bool = True
    names: tuple[str, ...] = ()  # instead of those in the header


@dataclass(frozen=True)
class CsvHeader:
    """The columns of a file, and the range of its rows."""

    path: DataPath
    delimiter: bytes
    names: list[str]
    rows: Range
    format: CsvFormat

    @property
    def records(self) -> RecordFormat:
        """Where the records of the file end."""
        return _records(self.delimiter, self.format.max_row)

    @property
    def expected(self) -> str:
        """What has the number of cells that every row should have."""
        return "the header" if self.format.has_header else "most rows"


@dataclass(frozen=True)
class FirstLines:
    """The first block of a file that is not blank."""

    path: DataPath
    delimiter: bytes
    block: Block
    records: CsvRecords
    first: int  # record that is the header, or the first row
    stop: int  # of the file

    def cells(self, rows: Sequence[int], width: int) -> list[list[bytes]]:
        """Returns the cells of some records of this width, column by column."""
        numbers = [str(number) for number in range(width)]
        cells = csv_cells.cells_of([self.records.text(row) for row in rows], numbers, self.delimiter)
        return [column.to_pylist() for column in cells.columns]

    def rows_from(self, row: int) -> Range:
        """Returns the range of the rows that begin with a record."""
        if row < len(self.records):
            start, line = self.block.start + int(self.records.starts[row]), int(self.records.lines[row])
        else:
            start, line = self.block.stop, self.block.line + text_ranges.count_lines(self.block.data)
        return Range("", start, self.stop, line, self.stop - start)

    def usual_width(self) -> int:
        """Returns the number of cells that most rows have."""
        whole = [
            row for row in range(len(self.records)) if not self.records.broken[row] and not self.records.is_blank(row)
        ]
        counts = Counter(self.records.widths[whole].tolist())
        return counts.most_common(1)[0][0] if counts else 1


def first_lines(path: DataPath, max_row: int) -> FirstLines:
    """Reads the first block; the delimiter is a tab in TSV, else a comma, a semicolon or a tab."""
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return _first_lines(path, b"\t", max_row)
    found = _first_lines(path, b",", max_row)
    # Spreadsheets write semicolons where the comma is the decimal separator.
    text = found.records.text(found.first) if found.records.widths[found.first] == 1 else b""
    other = next((each for each in _OTHER_DELIMITERS if each in text), None)
    return _first_lines(path, other, max_row) if other else found


def read(path: DataPath, csv: CsvFormat) -> CsvHeader:
    """Returns the columns of a file and the range of its rows."""
    lines = first_lines(path, csv.max_row)
    found = _names(lines) if csv.has_header else []
    width = len(found) or lines.usual_width()
    if csv.names and len(csv.names) != width:
        raise SettingsError(
            f"setting ingest.names: {path} has {width} columns, {len(csv.names)} names are set; give one per column"
        )
    names = list(csv.names) or found or [f"column_{number}" for number in range(1, width + 1)]
    return CsvHeader(path, lines.delimiter, names, lines.rows_from(lines.first + csv.has_header), csv)


def no_examples(path: DataPath) -> BadInput:
    """Returns the error for a file without rows."""
    return bad_file(path, "0 examples in it; expected a line of column names and at least one row below it")


def _records(delimiter: bytes, max_row: int) -> RecordFormat:
    return RecordFormat(partial(find_quoted_ends, delimiter=delimiter), max_row)


def _first_lines(path: DataPath, delimiter: bytes, max_row: int) -> FirstLines:
    whole = text_ranges.whole(path)
    block = text_ranges.first_block(path, _records(delimiter, max_row), whole, HEAD, BLANK)
    if block is None:
        raise no_examples(path)
    records = CsvRecords.of(block, delimiter)
    first = next(row for row in range(len(records)) if not records.is_blank(row))
    return FirstLines(path, delimiter, block, records, first, whole.stop)


def _names(lines: FirstLines) -> list[str]:
    """Returns the names in the header."""
    path, records, row = lines.path, lines.records, lines.first
    if records.broken[row]:
        raise bad_file(path, f"line {records.lines[row]}, the header: {NOT_CLOSED}; correct it")
    cells = lines.cells([row], int(records.widths[row]))
    names = [_name(path, number, cell[0]) for number, cell in enumerate(cells, 1)]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise bad_file(path, f"two columns of the header are called {twice!r}; rename one of them{_OR_DATA}")
    return names


def _name(path: DataPath, number: int, cell: bytes) -> str:
    if not cell.strip():
        raise bad_file(
            path,
            f"column {number} of the header has no name; give it one, or remove the column "
            f"(pandas: to_csv(…, index=False)){_OR_DATA}",
        )
    try:
        return cell.decode()
    except UnicodeDecodeError:
        raise bad_file(path, f"column {number} of the header: {csv_cells.show(cell)} is not UTF-8") from None
