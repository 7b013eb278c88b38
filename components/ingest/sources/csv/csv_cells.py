"""Cells of CSV records: parsing them with pyarrow, inferring the type of a column, and converting bytes to values.

How a cell is read:
- text: kept byte for byte, with NUL, blanks, line ends and formulas; an empty cell is an empty string; not UTF-8: bad;
- number or truth value: blanks around it are ignored; an empty cell and the spellings in `MISSING` are missing values;
- NaN, infinity and numbers beyond 32-bit floats, integers beyond the column's type: bad.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from components.errors import PenstockError
from components.ingest.sources.conversion import Flags, is_text, out_of_range, shorten
from components.ingest.sources.text_ranges import BOM
from components.records.quarantine import RAW_LIMIT

# What R, Excel, SQL and pandas write for a missing number. Not NaN: that may also be a computation that failed.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null")
TRUE = ("1", "True", "TRUE", "true")
FALSE = ("0", "False", "FALSE", "false")

_CODE = r"^\s*-?0[0-9xX]"  # 007 and 0x1F are names, not amounts: a number would not be written back like this
_HUGE = r"^\s*-?[0-9]{19,}\s*$"  # as a float it would lose its last digits
NUMBER, _INTEGER = r"^-?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$", r"^-?[0-9]{1,18}$"
TRUTH = f"^({'|'.join(TRUE + FALSE)})$"
_MOST = 0.9  # of the cells of a column


def parse(data: bytes, names: list[str], types: dict[str, pa.DataType], delimiter: bytes) -> pa.RecordBatch:
    """Parses records; columns without a type get one that fits all of them."""
    if not data or data.startswith(BOM):
        data = b"\n" + data  # a mark here is text; the blank line keeps pyarrow from removing it
    # Not read_csv: it searches all objects of the process for a reference cycle, 40 ms if TensorFlow is loaded.
    reader = pa_csv.open_csv(
        pa.BufferReader(data),
        # No threads: a runner has one worker per core. One block: inference sees all rows.
        pa_csv.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False),
        pa_csv.ParseOptions(delimiter=delimiter.decode(), newlines_in_values=True),
        pa_csv.ConvertOptions(column_types=types, null_values=MISSING, true_values=TRUE, false_values=FALSE),
    )
    batches = reader.read_all().combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=reader.schema)


def cells_of(records: Sequence[bytes], names: list[str], delimiter: bytes) -> pa.RecordBatch:
    """Returns the bytes of all cells of well-formed records."""
    cells = parse(b"\n".join(records), names, dict.fromkeys(names, pa.binary()), delimiter)
    if cells.num_rows != len(records):
        raise PenstockError(f"pyarrow read {cells.num_rows} rows from {len(records)} records; please report this")
    return cells


def infer(records: Sequence[bytes], names: list[str], delimiter: bytes) -> pa.Schema:
    """Returns types that fit nearly all well-formed records."""
    guessed = parse(b"\n".join(records), names, {}, delimiter).schema.types
    cells = cells_of(records, names, delimiter).columns
    types = [_settle(guess, column) for guess, column in zip(guessed, cells, strict=True)]
    return pa.schema(list(zip(names, types, strict=True)))


def convert(cells: pa.Array, kind: pa.DataType, *, finite: bool = True) -> tuple[pa.Array, Flags]:
    """Returns the values of a column, and which cells cannot have this type, or are not finite."""
    if pa.types.is_binary(kind):
        return cells, np.zeros(len(cells), np.bool_)
    text, wrong = _decode(cells)
    if is_text(kind):
        return text.cast(kind), wrong
    text = pc.utf8_trim(text, " \t")
    text = _without(text, pc.is_in(text, pa.array(MISSING)))
    unreadable = pc.is_in(text, pa.array(_unreadable(text.drop_null().unique(), kind), pa.string()))
    array = _without(text, unreadable).cast(kind)
    wrong |= unreadable.to_numpy(zero_copy_only=False)
    return array, wrong | out_of_range(array) if finite and pa.types.is_floating(kind) else wrong


def fault(field: pa.Field, cell: bytes) -> str:
    """Returns why a cell is wrong."""
    if is_text(field.type):
        expected = "UTF-8 text"
    elif pa.types.is_floating(field.type):
        expected = f"a finite number ({field.type}, in the range of 32-bit floats)"
    else:
        expected = f"of type {field.type}"
    return f"column {field.name}: {show(cell)} is not {expected}"


def show(cell: bytes) -> str:
    """Returns a cell for a message."""
    return repr(shorten(cell[:RAW_LIMIT].decode("utf-8", "backslashreplace")))


def _settle(guess: pa.DataType, cells: pa.Array) -> pa.DataType:
    """Returns the type of a column, given pyarrow's guess."""
    if is_text(guess) or pa.types.is_binary(guess):
        guess = _type_of_most(cells)
    if pa.types.is_int64(guess):
        return pa.string() if _any_match(cells, _CODE) else guess
    if pa.types.is_float64(guess):
        return pa.string() if _any_match(cells, _HUGE) else guess
    return guess if pa.types.is_boolean(guess) else pa.string()


def _type_of_most(cells: pa.Array) -> pa.DataType:
    """Returns the type of nearly all cells: a few odd ones are bad rows and do not turn numbers into text."""
    text = pc.utf8_trim(_decode(cells)[0].drop_null(), " \t")
    text = text.filter(pc.invert(pc.is_in(text, pa.array(MISSING))))
    numbers, integers, truths = (
        pc.sum(pc.match_substring_regex(text, pattern)).as_py() or 0 for pattern in (NUMBER, _INTEGER, TRUTH)
    )
    if numbers and numbers >= _MOST * len(text):
        return pa.int64() if integers == numbers else pa.float64()
    return pa.bool_() if truths and truths >= _MOST * len(text) else pa.string()


def _any_match(cells: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(cells, pattern)).as_py())


def _decode(cells: pa.Array) -> tuple[pa.Array, Flags]:
    """Returns cells as text, null where they are not UTF-8, and which are not."""
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
    """Returns the values that cannot be cast to a type: pyarrow only reports that there are some, so by halves."""
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        half = len(values) // 2
        return _unreadable(values[:half], kind) + _unreadable(values[half:], kind) if half else values.to_pylist()
    return []
