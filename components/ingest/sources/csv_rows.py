"""Rows of a CSV or TSV file, plain or gzip, with a header; the delimiter is a comma, else a semicolon or tab.

    block of text ─► pyarrow ─► columns                                                (the block is clean: usual)
                        └─► records ─► cells as bytes ─► column by column ─► columns of good rows, and bad rows

A column has the type of nine in ten of its cells in the first megabyte, else it is text; dates and codes (007) are text
too. A row with more or fewer cells than the header, or with text after a closing quote, is bad. A quote that is never
closed spoils its own line only. Blank lines are no rows. `csv_cells.py` says what becomes of a cell.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import pyarrow as pa

from components.errors import BadInput
from components.ingest.sources import csv_cells, text_ranges
from components.ingest.sources.conversion import is_label, out_of_range
from components.ingest.sources.record_ends import CR, LF, Flags, Ints, find_quoted_ends
from components.ingest.sources.rows import BadRow, Range, RowBatch, bad_file
from components.ingest.sources.text_ranges import SAMPLE, Block
from components.storage.paths import DataPath

_NOT_CLOSED = "a quoted cell is not closed, or text follows its closing quote"
_BLANK = b" \r\n"  # no tab: in a TSV file that is a row of empty cells
_BLOCK = 4 << 20  # bytes of text parsed at once: measured, 2 MB costs 15 % more and 8 MB 10 %
_OTHER_DELIMITERS = (b";", b"\t")  # for a header without commas
_HEAD = 64 << 10  # bytes per block while looking for the header


class CsvRows:
    """Reads CSV and TSV files."""

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the names of the header, with types that fit nearly all rows of the first megabyte."""
        header = _header(path)
        records = _CsvRecords.of(_first_rows(header, SAMPLE), header.delimiter)
        rows = [records.text(row) for row in records.well_formed(len(header.names))]
        return csv_cells.infer(rows, header.names, header.delimiter)

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Divides at line ends outside quotes."""
        header = _header(path)
        _first_rows(header, _HEAD)
        start = 0 if text_ranges.is_gzip(path) else header.rows.start
        body = replace(header.rows, path=relative, start=start, size=header.rows.stop - start)
        return text_ranges.divide(path, header.find, body, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads a range, about four megabytes of text at a time."""
        header = _header(path)
        _check_names(header, schema)
        if text_ranges.is_gzip(path):
            part = header.rows
        for block in text_ranges.blocks(path, header.find, part, _BLOCK):
            batch = _read_clean(block, header, schema) or _read_dirty(block, header, schema)
            if batch.columns.num_rows or batch.bad:
                yield batch


SOURCE = CsvRows()


@dataclass(frozen=True)
class _CsvHeader:
    """The first line of a file, and the range of the rows after it."""

    path: DataPath
    delimiter: bytes
    names: list[str]
    rows: Range

    @property
    def find(self) -> text_ranges.FindEnds:
        """Finds the record ends of the file."""
        return partial(find_quoted_ends, delimiter=self.delimiter)


def _header(path: DataPath) -> _CsvHeader:
    """Reads the column names from the first line that is not blank."""
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return _header_by(path, b"\t")
    header = _header_by(path, b",")
    # Spreadsheets write semicolons where the comma is the decimal separator.
    other = next(
        (each for each in _OTHER_DELIMITERS if len(header.names) == 1 and each in header.names[0].encode()), None
    )
    return _header_by(path, other) if other else header


def _header_by(path: DataPath, delimiter: bytes) -> _CsvHeader:
    whole = text_ranges.whole(path)
    find = partial(find_quoted_ends, delimiter=delimiter)
    block = text_ranges.first_block(path, find, whole, _HEAD, _BLANK)
    if block is None:
        raise _no_examples(path)
    records = _CsvRecords.of(block, delimiter)
    row = next(row for row in range(len(records)) if records.text(row).strip(_BLANK))
    if records.broken[row]:
        raise bad_file(path, f"line {records.lines[row]}, the header: {_NOT_CLOSED}; correct it")
    numbers = [str(number) for number in range(records.widths[row])]
    cells = csv_cells.cells_of([records.text(row)], numbers, delimiter)
    names = [_name(path, number, cell[0].as_py()) for number, cell in enumerate(cells, 1)]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise bad_file(path, f"two columns of the header are called {name!r}; rename one of them")
    if row + 1 < len(records):
        start, line = block.start + int(records.starts[row + 1]), int(records.lines[row + 1])
    else:
        start, line = block.stop, block.line + text_ranges.count_lines(block.data)
    return _CsvHeader(path, delimiter, names, Range("", start, whole.stop, line, whole.stop - start))


def _name(path: DataPath, number: int, cell: bytes) -> str:
    if not cell.strip():
        raise bad_file(
            path,
            f"column {number} of the header has no name; give it one, or remove the column "
            "(pandas: to_csv(…, index=False))",
        )
    try:
        return cell.decode()
    except UnicodeDecodeError:
        raise bad_file(path, f"column {number} of the header: {csv_cells.show(cell)} is not UTF-8") from None


def _first_rows(header: _CsvHeader, size: int) -> Block:
    """Returns about `size` bytes of rows; rejects a file without rows."""
    block = text_ranges.first_block(header.path, header.find, header.rows, size, _BLANK)
    if block is None:
        raise _no_examples(header.path)
    return block


def _no_examples(path: DataPath) -> BadInput:
    return bad_file(path, "0 examples in it; expected a line of column names and at least one row below it")


def _check_names(header: _CsvHeader, schema: pa.Schema) -> None:
    """Rejects a file whose columns are not those of the schema."""
    missing, extra = [name for name in schema.names if name not in header.names], set(header.names) - set(schema.names)
    if missing or extra:
        raise bad_file(
            header.path,
            f"its header differs from the schema: missing {missing}, not in the schema {sorted(extra)}; "
            "all files of a data set need the same columns",
        )


def _read_clean(block: Block, header: _CsvHeader, schema: pa.Schema) -> RowBatch | None:
    """Reads a block in one go; None if any of its rows is bad."""
    if (block.ends.broken < len(block.data)).any():
        return None
    types = dict(zip(schema.names, schema.types, strict=True))
    try:
        table = csv_cells.parse(block.data, header.names, types, header.delimiter)
    except pa.ArrowInvalid:
        return None
    arrays = [table.column(header.names.index(name)) for name in schema.names]
    numbers = [each for each, field in zip(arrays, schema, strict=True) if not is_label(field)]
    if any(out_of_range(array).any() for array in numbers if pa.types.is_floating(array.type)):
        return None
    records = cache(lambda: _CsvRecords.of(block, header.delimiter))
    rows = cache(lambda: records().well_formed(len(header.names)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return RowBatch(batch, describe=lambda row: records().describe(rows()[row]))


def _read_dirty(block: Block, header: _CsvHeader, schema: pa.Schema) -> RowBatch:
    """Reads a block with bad rows, and finds the fault of each."""
    records = _CsvRecords.of(block, header.delimiter)
    faults = records.faults(len(header.names))
    rows = records.well_formed(len(header.names))
    cells = csv_cells.cells_of([records.text(row) for row in rows], header.names, header.delimiter)
    arrays, good = [], np.ones(len(rows), np.bool_)
    for field in schema:
        column = cells.column(header.names.index(field.name))
        array, wrong = csv_cells.convert(column, field.type, finite=not is_label(field))
        for place in np.flatnonzero(wrong & good).tolist():
            faults[rows[place]] = csv_cells.fault(field, column[place].as_py())
        arrays.append(array)
        good &= ~wrong
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema).filter(pa.array(good))
    bad = [BadRow.of(records.describe(row), faults[row]) for row in sorted(faults)]
    return RowBatch(batch, bad, lambda row: records.describe(rows[np.flatnonzero(good)[row]]))


@dataclass(frozen=True)
class _CsvRecords:
    """The records of a block without their line ends, blank ones included."""

    data: bytes
    starts: Ints
    stops: Ints
    lines: Ints  # number of the first line of each
    widths: Ints  # cells of each
    broken: Flags

    @classmethod
    def of(cls, block: Block, delimiter: bytes) -> "_CsvRecords":
        """Splits a block into records."""
        text, quoted = np.frombuffer(block.data, np.uint8), block.ends
        line_ends = np.flatnonzero((text == LF) | ((text == CR) & (np.append(text[1:], 0) != LF)))
        ends = line_ends[~quoted.inside(line_ends)]
        starts, stops = np.append(0, ends + 1), np.append(ends, len(text))
        stops[:-1] -= (text[ends] == LF) & (text[ends - 1] == CR) & (ends > starts[:-1])
        delimiters = np.flatnonzero(text == delimiter[0])
        delimiters = delimiters[~quoted.inside(delimiters)]
        widths = np.bincount(_records_at(starts, delimiters), minlength=len(starts)) + 1
        broken = np.zeros(len(starts), np.bool_)
        broken[_records_at(starts, quoted.broken[quoted.broken < len(text)])] = True
        return cls(block.data, starts, stops, block.line + np.searchsorted(line_ends, starts), widths, broken)

    def __len__(self) -> int:
        return len(self.starts)

    def text(self, row: int) -> bytes:
        """Returns the bytes of a record."""
        return self.data[self.starts[row] : self.stops[row]]

    def well_formed(self, width: int) -> list[int]:
        """Returns the records with as many cells as the header."""
        rows: list[int] = np.flatnonzero((self.widths == width) & ~self.broken & (self.stops > self.starts)).tolist()
        return rows

    def faults(self, width: int) -> dict[int, str]:
        """Returns the records that are not well-formed, with the reason; blank lines are no faults."""
        ragged = np.flatnonzero((self.widths != width) & ~self.broken).tolist()
        faults = dict.fromkeys(np.flatnonzero(self.broken).tolist(), _NOT_CLOSED)
        for row in ragged:
            if self.text(row).strip(_BLANK):
                faults[row] = f"{self.widths[row]} cells, expected {width} as in the header"
        return faults

    def describe(self, row: int) -> tuple[str, bytes]:
        """Returns position and bytes of a record."""
        return f"line {self.lines[row]}", self.text(row)


def _records_at(starts: Ints, positions: Ints) -> Ints:
    """Returns the record that each position is in."""
    return np.searchsorted(starts, positions, side="right") - 1
