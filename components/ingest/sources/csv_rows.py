"""Rows of a CSV or TSV file, plain or gzip, with a header; commas part its cells, else semicolons or tabs.

    block of text ─► pyarrow ─► columns                                         (all of it is clean: the usual case)
                        └─► records ─► cells as bytes ─► a column at a time ─► columns of the good rows, and bad rows

What becomes of a cell:
- text: kept to the byte, with NUL, blanks, line ends and formulas; an empty cell is an empty string; not UTF-8: bad;
- number or truth: blanks around it are ignored; an empty cell and the spellings in `MISSING` are missing values;
- NaN, infinity and what a 32-bit float cannot hold, integers beyond the column's type: bad, with the line.

A column has the type of nine in ten of its cells in the first megabyte; text, if there is no such type, and for dates
and codes (007). A row with more or fewer cells than the header, or with text behind a closing quote, is bad. A quote
that is never closed spoils its own line only. Lines with nothing in them are no rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from components.errors import BadInput, PenstockError
from components.ingest.sources import text_ranges
from components.ingest.sources.rows import BadRow, Range, RowBatch
from components.ingest.sources.text_ranges import (
    BOM,
    CR,
    LF,
    SAMPLE,
    Block,
    Flags,
    Ints,
    QuotedEnds,
    find_quoted_ends,
    out_of_range,
    shortened,
    shown,
)
from components.records.quarantine import RAW_LIMIT
from components.storage.paths import DataPath

# What R, Excel, SQL and pandas write for a missing number. Not NaN: it may as well be a computation that failed.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null")
TRUE = ("1", "True", "TRUE", "true")
FALSE = ("0", "False", "FALSE", "false")

_CODE = r"^\s*-?0[0-9xX]"  # 007 and 0x1F are names rather than amounts: a number would not be written back like this
_HUGE = r"^\s*-?[0-9]{19,}\s*$"  # neither: as a float it would lose its last digits
_LOOKS = (r"^-?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$", r"^-?[0-9]{1,18}$", f"^({'|'.join(TRUE + FALSE)})$")
_MOST = 0.9  # of the cells of a column
_NOT_CLOSED = "a quoted cell is not closed, or text follows its closing quote"
_BLANK = b" \r\n"
_BLOCK = 4 << 20  # bytes of text that are parsed at once: measured, 2 MB costs 15 % more and 8 MB 10 %
_OTHERS = (b";", b"\t")  # what cuts a header that no comma cuts
_HEAD = 64 << 10  # bytes in which a header is looked for first


class CsvRows:
    """Reads tables of text."""

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the header's names, with types that fit nearly all rows of the first megabyte."""
        header = _header(path)
        return _infer(header, _first_rows(header, SAMPLE))

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Cuts at line ends outside quotes."""
        header = _header(path)
        _first_rows(header, _HEAD)
        start = 0 if text_ranges.is_gzip(path) else header.rows.start
        body = replace(header.rows, path=relative, start=start, size=header.rows.stop - start)
        return text_ranges.divide(path, header.find, body, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads a range, about four megabytes of text at a time."""
        header = _header(path)
        _check_schema(header, schema)
        if text_ranges.is_gzip(path):
            part = header.rows
        for block in text_ranges.blocks(path, header.find, part, _BLOCK):
            batch = _read_clean(block, header, schema) or _read_dirty(block, header, schema)
            if batch.columns.num_rows or batch.bad:
                yield batch


SOURCE = CsvRows()


@dataclass(frozen=True)
class _Header:
    """The first line of a file, and what is below it."""

    path: DataPath
    delimiter: bytes
    names: list[str]
    rows: Range

    @property
    def find(self) -> text_ranges.FindEnds[QuotedEnds]:
        """Finds records of the file."""
        return partial(find_quoted_ends, delimiter=self.delimiter)


def _header(path: DataPath) -> _Header:
    """Reads the column names: the first line that is not blank."""
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return _cut_header(path, b"\t")
    header = _cut_header(path, b",")
    # Spreadsheets write semicolons where the comma is a decimal sign.
    other = next((sign for sign in _OTHERS if len(header.names) == 1 and sign.decode() in header.names[0]), None)
    return _cut_header(path, other) if other else header


def _cut_header(path: DataPath, delimiter: bytes) -> _Header:
    whole = text_ranges.whole(path)
    for block in text_ranges.blocks(path, partial(find_quoted_ends, delimiter=delimiter), whole, _HEAD):
        if block.data.strip(_BLANK):
            return _split_header(path, block, delimiter, whole.stop)
    raise _no_examples(path)


def _split_header(path: DataPath, block: Block[QuotedEnds], delimiter: bytes, stop: int) -> _Header:
    records = _Records.of(block, delimiter)
    row = next(row for row in range(len(records)) if records.text(row).strip(_BLANK))
    if records.broken[row]:
        raise BadInput(f"{shown(path)}: line {records.lines[row]}, the header: {_NOT_CLOSED}; mend it")
    cells = _cells([records.text(row)], [str(number) for number in range(records.widths[row])], delimiter)
    names = [_name(path, number, cell[0].as_py()) for number, cell in enumerate(cells, 1)]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise BadInput(f"{shown(path)}: two columns of the header are called {name!r}; rename one of them")
    if row + 1 < len(records):
        start, line = block.start + int(records.starts[row + 1]), int(records.lines[row + 1])
    else:
        start, line = block.stop, block.line + text_ranges.count_lines(block.data)
    return _Header(path, delimiter, names, Range("", start, stop, line, stop - start))


def _name(path: DataPath, number: int, cell: bytes) -> str:
    if not cell.strip():
        raise BadInput(
            f"{shown(path)}: column {number} of the header has no name; give it one, or leave the column out "
            "(pandas: to_csv(…, index=False))"
        )
    try:
        return cell.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{shown(path)}: column {number} of the header: {_shown(cell)} is not UTF-8") from None


def _first_rows(header: _Header, size: int) -> Block[QuotedEnds]:
    """Returns about `size` bytes of rows; a file without any is refused."""
    for block in text_ranges.blocks(header.path, header.find, header.rows, size):
        if block.data.strip(_BLANK):
            return block
    raise _no_examples(header.path)


def _no_examples(path: DataPath) -> BadInput:
    return BadInput(f"{shown(path)}: 0 examples in it; expected a line of column names and at least one row below it")


def _infer(header: _Header, block: Block[QuotedEnds]) -> pa.Schema:
    """Returns types that fit nearly all well-formed rows of a block."""
    records = _Records.of(block, header.delimiter)
    rows = [records.text(row) for row in records.well_formed(len(header.names))]
    guessed = _parse(b"\n".join(rows), header.names, {}, header.delimiter).schema.types
    cells = _cells(rows, header.names, header.delimiter).columns
    types = [_settle(guess, column) for guess, column in zip(guessed, cells, strict=True)]
    return pa.schema(list(zip(header.names, types, strict=True)))


def _settle(guess: pa.DataType, cells: pa.Array) -> pa.DataType:
    """Returns the type of a column, given what pyarrow takes it for."""
    if pa.types.is_string(guess) or pa.types.is_binary(guess):
        guess = _of_most(cells)
    if pa.types.is_int64(guess):
        return pa.string() if _any_match(cells, _CODE) else guess
    if pa.types.is_float64(guess):
        return pa.string() if _any_match(cells, _HUGE) else guess
    return guess if pa.types.is_boolean(guess) else pa.string()


def _of_most(cells: pa.Array) -> pa.DataType:
    """Returns the type of nearly all cells: a few odd ones are bad rows, and do not turn numbers into text."""
    text = pc.utf8_trim(_decode(cells)[0].drop_null(), " \t")
    text = text.filter(pc.invert(pc.is_in(text, pa.array(MISSING))))
    numbers, integers, truths = (pc.sum(pc.match_substring_regex(text, each)).as_py() or 0 for each in _LOOKS)
    if numbers and numbers >= _MOST * len(text):
        return pa.int64() if integers == numbers else pa.float64()
    return pa.bool_() if truths and truths >= _MOST * len(text) else pa.string()


def _any_match(cells: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(cells, pattern)).as_py())


def _check_schema(header: _Header, schema: pa.Schema) -> None:
    """Refuses a schema that is not of this file: columns would be lost, or be other than they are said to be."""
    missing, extra = [name for name in schema.names if name not in header.names], set(header.names) - set(schema.names)
    if missing or extra:
        raise BadInput(
            f"{shown(header.path)}: its header differs from the schema: missing {missing}, not in the schema "
            f"{sorted(extra)}; all files of a data set need the same columns"
        )
    for field in schema:
        if not _is_readable(field.type):
            raise BadInput(f"{shown(header.path)}: column {field.name}: text cannot be read as {field.type}")


def _is_readable(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean, pa.types.is_string,
        pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _read_clean(block: Block[QuotedEnds], header: _Header, schema: pa.Schema) -> RowBatch | None:
    """Reads a block in one go; None if anything is wrong with any row of it."""
    if (block.ends.broken < len(block.data)).any():
        return None
    try:
        table = _parse(block.data, header.names, dict(zip(schema.names, schema.types, strict=True)), header.delimiter)
    except pa.ArrowInvalid:
        return None
    arrays = [table.column(header.names.index(name)) for name in schema.names]
    if any(out_of_range(array).any() for array in arrays if pa.types.is_floating(array.type)):
        return None
    taken_apart = cache(lambda: _Records.of(block, header.delimiter))
    rows = cache(lambda: taken_apart().well_formed(len(header.names)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return RowBatch(batch, describe=lambda row: taken_apart().described(rows()[row]))


def _read_dirty(block: Block[QuotedEnds], header: _Header, schema: pa.Schema) -> RowBatch:
    """Reads a block with bad rows in it, and tells what is wrong with each."""
    records = _Records.of(block, header.delimiter)
    faults = records.faults(len(header.names))
    rows = records.well_formed(len(header.names))
    cells = _cells([records.text(row) for row in rows], header.names, header.delimiter)
    arrays, good = [], np.ones(len(rows), np.bool_)
    for field in schema:
        column = cells.column(header.names.index(field.name))
        array, wrong = _convert(column, field.type)
        for place in np.flatnonzero(wrong & good).tolist():
            faults[rows[place]] = _fault(field, column[place].as_py())
        arrays.append(array)
        good &= ~wrong
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema).filter(pa.array(good))
    bad = [records.bad_row(row, faults[row]) for row in sorted(faults)]
    return RowBatch(batch, bad, lambda row: records.described(rows[np.flatnonzero(good)[row]]))


@dataclass(frozen=True)
class _Records:
    """The records of a block, without their line ends; blank ones too."""

    data: bytes
    starts: Ints
    stops: Ints
    lines: Ints  # number of the first line of each
    widths: Ints  # cells of each
    broken: Flags

    @classmethod
    def of(cls, block: Block[QuotedEnds], delimiter: bytes) -> "_Records":
        """Takes a block apart."""
        text, quoted = np.frombuffer(block.data, np.uint8), block.ends
        line_ends = np.flatnonzero((text == LF) | ((text == CR) & (np.append(text[1:], 0) != LF)))
        ends = line_ends[~quoted.inside(line_ends)]
        starts, stops = np.append(0, ends + 1), np.append(ends, len(text))
        stops[:-1] -= (text[ends] == LF) & (text[ends - 1] == CR) & (ends > starts[:-1])
        delimiters = np.flatnonzero(text == delimiter[0])
        delimiters = delimiters[~quoted.inside(delimiters)]
        widths = np.bincount(_owners(starts, delimiters), minlength=len(starts)) + 1
        broken = np.zeros(len(starts), np.bool_)
        broken[_owners(starts, quoted.broken[quoted.broken < len(text)])] = True
        return cls(block.data, starts, stops, block.line + np.searchsorted(line_ends, starts), widths, broken)

    def __len__(self) -> int:
        return len(self.starts)

    def text(self, row: int) -> bytes:
        """Returns a record."""
        return self.data[self.starts[row] : self.stops[row]]

    def well_formed(self, width: int) -> list[int]:
        """Returns the records with as many cells as the header."""
        rows: list[int] = np.flatnonzero((self.widths == width) & ~self.broken & (self.stops > self.starts)).tolist()
        return rows

    def faults(self, width: int) -> dict[int, str]:
        """Returns what is wrong with the form of records; blank lines are not wrong."""
        ragged = np.flatnonzero((self.widths != width) & ~self.broken).tolist()
        faults = dict.fromkeys(np.flatnonzero(self.broken).tolist(), _NOT_CLOSED)
        for row in ragged:
            if self.text(row).strip(_BLANK):
                faults[row] = f"{self.widths[row]} cells, expected {width} as in the header"
        return faults

    def bad_row(self, row: int, reason: str) -> BadRow:
        """Returns a record as one that cannot be used."""
        position, text = self.described(row)
        return BadRow(position, reason, text)

    def described(self, row: int) -> tuple[str, bytes]:
        """Returns where a record stands, and its text."""
        return f"line {self.lines[row]}", self.text(row)[:RAW_LIMIT]


def _owners(starts: Ints, positions: Ints) -> Ints:
    """Returns in which record each position is."""
    return np.searchsorted(starts, positions, side="right") - 1


def _cells(rows: list[bytes], names: list[str], delimiter: bytes) -> pa.RecordBatch:
    """Returns the bytes of all cells of well-formed records."""
    cells = _parse(b"\n".join(rows), names, dict.fromkeys(names, pa.binary()), delimiter)
    if cells.num_rows != len(rows):
        raise PenstockError(f"pyarrow read {cells.num_rows} rows where {len(rows)} records are; please report this")
    return cells


def _parse(data: bytes, names: list[str], types: dict[str, pa.DataType], delimiter: bytes) -> pa.RecordBatch:
    """Parses rows; columns without a type get one that fits all of them."""
    if not data or data.startswith(BOM):
        data = b"\n" + data  # the mark is no mark here, but text: a blank line in front keeps pyarrow from taking it
    # Not read_csv: it looks for a reference cycle among all objects of the process, 40 ms if TensorFlow is loaded.
    reader = pa_csv.open_csv(
        pa.BufferReader(data),
        # No threads: a runner has a worker a core. One block: inference sees all rows.
        pa_csv.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False),
        pa_csv.ParseOptions(delimiter=delimiter.decode(), newlines_in_values=True),
        pa_csv.ConvertOptions(column_types=types, null_values=MISSING, true_values=TRUE, false_values=FALSE),
    )
    batches = reader.read_all().combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=reader.schema)


def _convert(cells: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Flags]:
    """Returns the values of a column, and which cells have none of this type."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return cells.cast(kind), np.zeros(len(cells), np.bool_)
    text, wrong = _decode(cells)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return text.cast(kind), wrong
    text = pc.utf8_trim(text, " \t")
    text = _without(text, pc.is_in(text, pa.array(MISSING)))
    unreadable = pc.is_in(text, pa.array(_unreadable(text.drop_null().unique(), kind), pa.string()))
    array = _without(text, unreadable).cast(kind)
    wrong |= unreadable.to_numpy(zero_copy_only=False)
    return array, wrong | out_of_range(array) if pa.types.is_floating(kind) else wrong


def _decode(cells: pa.Array) -> tuple[pa.Array, Flags]:
    """Returns cells as text, and which are not."""
    try:
        return cells.cast(pa.string()), np.zeros(len(cells), np.bool_)
    except pa.ArrowInvalid:
        wrong = np.array([not _is_utf8(cell) for cell in cells.to_pylist()], np.bool_)
        return _without(cells, pa.array(wrong)).cast(pa.string()), wrong


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without(values: pa.Array, which: pa.Array) -> pa.Array:
    return pc.if_else(which, pa.scalar(None, values.type), values)


def _unreadable(values: pa.Array, kind: pa.DataType) -> list[str]:
    """Returns the values that are not of a type: pyarrow tells only that there are some, so by halves."""
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        half = len(values) // 2
        return _unreadable(values[:half], kind) + _unreadable(values[half:], kind) if half else values.to_pylist()
    return []


def _fault(field: pa.Field, cell: bytes) -> str:
    """Returns why a cell is wrong."""
    if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
        expected = "UTF-8 text"
    elif pa.types.is_floating(field.type):
        expected = f"a finite number ({field.type}, in the range of 32-bit floats)"
    else:
        expected = f"of type {field.type}"
    return f"column {field.name}: {_shown(cell)} is not {expected}"


def _shown(cell: bytes) -> str:
    return repr(shortened(cell[:RAW_LIMIT].decode("utf-8", "backslashreplace")))
