"""Rows of a CSV or TSV file, plain or gzip; the delimiter is a comma, else a semicolon or tab.

    block of text ─► pyarrow ─► columns                                                (the block is clean: usual)
                        └─► records ─► cells as bytes ─► column by column ─► columns of good rows, and bad rows

A column has the type of nine in ten of its cells in the first megabyte, else it is text; dates and codes (007) are text
too. A row with more or fewer cells than the header (without one: than most rows), or with text after a closing quote,
is bad. A quote that is never closed spoils its own line only. Blank lines are no rows. `csv_cells.py` describes
how a cell is read, `csv_first_line.py` how a header is recognised.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from components.errors import SettingsError
from components.ingest.sources import text_ranges
from components.ingest.sources.conversion import is_label, out_of_range
from components.ingest.sources.csv import csv_cells, csv_first_line, csv_header
from components.ingest.sources.csv.csv_header import CsvFormat, CsvHeader, no_examples
from components.ingest.sources.csv.csv_records import BLANK, CsvRecords
from components.ingest.sources.record_ends import Ints
from components.ingest.sources.rows import MAX_ROW, BadRow, Decision, Range, RowBatch, bad_file
from components.ingest.sources.text_ranges import SAMPLE, Block
from components.storage.paths import DataPath

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

_BLOCK = 4 << 20  # bytes of text parsed at once: measured, 2 MB costs 15 % more and 8 MB 10 %


@dataclass(frozen=True)
class CsvRows:
    """Reads CSV and TSV files."""

    format: CsvFormat

    def configure(self, files: Sequence[DataPath], settings: "Ingest") -> tuple["CsvRows", Decision]:
        """Decides whether the files have a header, unless `ingest.header` does."""
        names, max_row = settings.names, settings.max_row_mb << 20
        if len(set(names)) < len(names):
            raise SettingsError(f"setting ingest.names: a name occurs twice in {', '.join(names)}; make them distinct")
        if settings.header == "no":
            return CsvRows(CsvFormat(max_row, has_header=False, names=names)), Decision()
        singles = {settings.label, settings.split_by, settings.images} - {""}
        known = {*singles, *settings.text, *settings.unused, *settings.columns}
        if settings.header == "yes":
            has_header, decision = True, csv_first_line.check_header(files[0], names, known, max_row)
        else:
            has_header, decision = csv_first_line.decide(files, names, known, max_row)
        return CsvRows(CsvFormat(max_row, has_header, names)), decision

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the names of the columns, with types that fit nearly all rows of the first megabyte."""
        header = csv_header.read(path, self.format)
        records = CsvRecords.of(_first_rows(header, SAMPLE), header.delimiter)
        rows = [records.text(row) for row in records.well_formed(len(header.names))]
        return csv_cells.infer(rows, header.names, header.delimiter)

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Divides at line ends outside quotes."""
        header = csv_header.read(path, self.format)
        _first_rows(header, csv_header.HEAD)
        start = 0 if text_ranges.is_gzip(path) else header.rows.start
        body = replace(header.rows, path=relative, start=start, size=header.rows.stop - start)
        return text_ranges.divide(path, header.records, body, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads a range, about four megabytes of text at a time."""
        header = csv_header.read(path, self.format)
        _check_names(header, schema)
        if text_ranges.is_gzip(path):
            part = header.rows
        for block in text_ranges.blocks(path, header.records, part, _BLOCK):
            batch = _read_clean(block, header, schema) or _read_dirty(block, header, schema)
            if batch.columns.num_rows or batch.bad:
                yield batch


SOURCE = CsvRows(CsvFormat(MAX_ROW))


def _first_rows(header: CsvHeader, size: int) -> Block:
    """Returns about `size` bytes of rows; rejects a file without rows."""
    block = text_ranges.first_block(header.path, header.records, header.rows, size, BLANK)
    if block is None:
        raise no_examples(header.path)
    return block


def _check_names(header: CsvHeader, schema: pa.Schema) -> None:
    """Rejects a file whose columns are not those of the schema."""
    names, known = schema.names, set(header.names)
    missing, extra = [name for name in names if name not in known], known.difference(names)
    if missing or extra:
        raise bad_file(
            header.path,
            f"its columns differ from the schema: missing {missing}, not in the schema {sorted(extra)}; "
            "all files of a data set need the same columns",
        )


def _read_clean(block: Block, header: CsvHeader, schema: pa.Schema) -> RowBatch | None:
    """Reads a block in one go; None if any of its rows is bad."""
    if (block.ends.broken < len(block.data)).any():
        return None
    types = dict(zip(schema.names, schema.types, strict=True))
    try:
        table = csv_cells.parse(block.data, header.names, types, header.delimiter)
    except pa.ArrowInvalid:
        return None
    places = {name: place for place, name in enumerate(header.names)}
    arrays = [table.column(places[name]) for name in schema.names]
    numbers = [each for each, field in zip(arrays, schema, strict=True) if not is_label(field)]
    if any(out_of_range(array).any() for array in numbers if pa.types.is_floating(array.type)):
        return None
    records = cache(lambda: CsvRecords.of(block, header.delimiter))
    rows = cache(lambda: records().well_formed(len(header.names)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)

    def lines_of_rows() -> Ints:
        lines = text_ranges.lines_in_order(block, batch.num_rows)
        return records().lines[rows()] if lines is None else lines

    return RowBatch(batch, describe=lambda row: records().describe(rows()[row]), numbers=lines_of_rows)


def _read_dirty(block: Block, header: CsvHeader, schema: pa.Schema) -> RowBatch:
    """Reads a block with bad rows, and finds the fault of each."""
    records = CsvRecords.of(block, header.delimiter)
    faults = records.faults(len(header.names), header.expected)
    rows = records.well_formed(len(header.names))
    cells = csv_cells.cells_of([records.text(row) for row in rows], header.names, header.delimiter)
    places = {name: place for place, name in enumerate(header.names)}
    arrays, good = [], np.ones(len(rows), np.bool_)
    for field in schema:
        column = cells.column(places[field.name])
        array, wrong = csv_cells.convert(column, field.type, finite=not is_label(field))
        for place in np.flatnonzero(wrong & good).tolist():
            faults[rows[place]] = csv_cells.fault(field, column[place].as_py())
        arrays.append(array)
        good &= ~wrong
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema).filter(pa.array(good))
    bad = [BadRow.of(records.describe(row), faults[row]) for row in sorted(faults)]
    return RowBatch(
        batch,
        bad,
        lambda row: records.describe(rows[np.flatnonzero(good)[row]]),
        lambda: records.lines[np.array(rows, np.int64)[good]],
    )
