"""Rows of a JSON Lines file, plain or gzip: one object per line.

    block of text ─► orjson, line by line ─► columns ─► types checked column by column      (the block is clean: usual)
                                                └─► values checked one by one ─► good rows, and bad rows

How a value is read:
- booleans, integers, floats, strings, and lists of one of them are columns; an integer is accepted as a float;
- {"a": {"b": 1}} is the column "a.b"; deeper objects, and lists in lists, are rejected; {} holds nothing, and is bad
  only where a value is expected;
- null, and a key that a line does not have, is a missing value;
- NaN, infinity and numbers beyond 32-bit floats, integers beyond the column's type, a value of another type, a key that
  is not in the schema: the line is bad. A label that is a float may be any of them: `ingest.unlabelled` decides;
- if a key occurs twice in one object, the last one counts;
- in a column whose type the user has set, text that holds a number or boolean is converted, and the reverse.

Blank lines are no rows. pyarrow's own reader is not used: for text that is not quite JSON Lines (two objects in a line,
one object over two lines) it does not go by lines, so a row would depend on its neighbours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from components.errors import PenstockError
from components.ingest.sources import set_types, text_ranges
from components.ingest.sources.conversion import OVERFLOW, is_label, is_list, out_of_range, value_type
from components.ingest.sources.jsonl import jsonl_lines
from components.ingest.sources.jsonl.jsonl_lines import BadLine, Row, flatten, parse, show
from components.ingest.sources.record_ends import Ints, find_line_ends
from components.ingest.sources.rows import BadRow, LimitedRows, Range, RowBatch, bad_file
from components.ingest.sources.text_ranges import SAMPLE, Block, RecordFormat
from components.storage.paths import DataPath

_BLOCK = 2 << 20  # bytes of text parsed at once: 4 MB of it as Python objects exceed the CPU caches
_EXPECTED = "expected one JSON object per line"


class JsonlRows(LimitedRows):
    """Reads JSON Lines files."""

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the keys in the first megabyte, each with the type of most of its values."""
        first = self._first_rows(path)
        schema = jsonl_lines.infer(path, enumerate(first.data.splitlines(), first.line))
        if not schema.names:
            raise bad_file(path, f"0 examples in its first {len(first.data)} bytes; {_EXPECTED}")
        return schema

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Divides at line ends."""
        self._first_rows(path)
        whole = replace(text_ranges.whole(path), path=relative)
        return text_ranges.divide(path, self._lines, whole, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads a range, about two megabytes of text at a time."""
        for block in text_ranges.blocks(path, self._lines, part, _BLOCK):
            batch = _read_clean(block, schema, self.only_schema) or _read_dirty(block, schema, self.only_schema)
            if batch.columns.num_rows or batch.bad:
                yield batch

    @property
    def _lines(self) -> RecordFormat:
        return RecordFormat(find_line_ends, self.max_row)

    def _first_rows(self, path: DataPath) -> Block:
        """Returns about a megabyte of lines; rejects a file without any."""
        block = text_ranges.first_block(path, self._lines, text_ranges.whole(path), SAMPLE)
        if block is None:
            raise bad_file(path, f"0 examples in it; {_EXPECTED}")
        return block


SOURCE = JsonlRows()


def _python_types(kind: pa.DataType) -> set[type]:
    """Returns the Python types that can become values of a type."""
    if pa.types.is_boolean(kind):
        return {bool}
    if pa.types.is_integer(kind):
        return {int}
    if pa.types.is_floating(kind):
        return {int, float}
    return {bytes} if pa.types.is_binary(kind) else {str}


def _read_clean(block: Block, schema: pa.Schema, only_schema: bool) -> RowBatch | None:
    """Reads a block column by column; None if any of its lines is bad."""
    try:
        rows = [orjson.loads(line) for line in block.data.splitlines() if line and not line.isspace()]
        if set(map(type, rows)) - {dict}:
            return None
        if any("." in name for name in schema.names):
            rows = [flatten(row) for row in rows]
        if converters := set_types.converters(schema):
            rows = [set_types.convert(row, converters) for row in rows]
    except (orjson.JSONDecodeError, BadLine):
        return None
    columns = _columns(rows, schema, only_schema)
    return None if columns is None else RowBatch(columns, (), _describer(block, ()), _numberer(block, len(rows), ()))


def _describer(block: Block, bad: Sequence[BadRow]) -> Callable[[int], tuple[str, bytes]]:
    """Returns a function that returns position and text of a good row of a block."""

    @cache
    def lines() -> list[tuple[str, bytes]]:
        positions = {row.position for row in bad}
        every = ((f"line {number}", line) for number, line in enumerate(block.data.splitlines(), block.line))
        return [(position, line) for position, line in every if line.strip() and position not in positions]

    return lambda row: lines()[row]


def _numberer(block: Block, rows: int, bad: Sequence[BadRow]) -> Callable[[], Ints]:
    """Returns a function that returns the line of each good row of a block."""

    def numbers() -> Ints:
        if not bad and block.data.count(b"\n") + (not block.data.endswith(b"\n")) == rows and b"\r" not in block.data:
            return np.arange(block.line, block.line + rows)
        positions = {row.position for row in bad}
        every = enumerate(block.data.splitlines(), block.line)
        return np.array([at for at, line in every if line.strip() and f"line {at}" not in positions], np.int64)

    return numbers


def _columns(rows: Sequence[Row], schema: pa.Schema, only_schema: bool) -> pa.RecordBatch | None:
    """Returns rows as columns; None if a key or value does not fit the schema."""
    shapes = set(map(tuple, rows))
    if not only_schema and set().union(*shapes) - set(schema.names):
        return None
    if len(shapes) == 1:  # every line has the same keys in the same order, as programs write them
        (keys,), flat = shapes, list(chain.from_iterable(map(dict.values, rows)))
        values = {key: flat[place :: len(keys)] for place, key in enumerate(keys)}
    else:
        values = {name: [row.get(name) for row in rows] for name in schema.names}
    arrays = []
    for field in schema:
        array = _array(values.get(field.name, [None] * len(rows)), field)
        if array is None:
            return None
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array | None:
    """Returns values as an array; None if one has another type, as pyarrow would convert 1.5 and True to 1."""
    kind = field.type
    single, found = value_type(kind), set(map(type, values)) - {type(None)}
    if is_list(kind):
        if found - {list}:
            return None
        found = set(map(type, chain.from_iterable(filter(None, values))))
    if found - _python_types(single):
        return None
    if pa.types.is_floating(single) and int in found:
        values = _as_floats(values, listed=is_list(kind))  # pyarrow rejects integers that a float would round
    try:
        array = pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError):  # beyond the type
        return None
    if not pa.types.is_floating(single) or _may_be_nan(field):
        return array
    return None if out_of_range(array.flatten() if is_list(kind) else array).any() else array


def _may_be_nan(field: pa.Field) -> bool:
    """Whether a quantity is the label: `ingest.unlabelled` decides what happens to rows with NaN."""
    return is_label(field) and bool(pa.types.is_floating(field.type))


def _as_floats(values: Iterable[Any], *, listed: bool) -> list[Any]:
    if listed:
        return [None if value is None else _as_floats(value, listed=False) for value in values]
    return [None if value is None else float(value) for value in values]


def _read_dirty(block: Block, schema: pa.Schema, only_schema: bool) -> RowBatch:
    """Reads a block with bad lines, and finds the fault of each."""
    tests = {field.name: _test(field.type, nan=_may_be_nan(field)) for field in schema}
    converters = set_types.converters(schema)
    good, bad = [], []
    for number, line in enumerate(block.data.splitlines(), block.line):
        if line.strip():
            try:
                row = parse(line)
                if only_schema:
                    row = {name: value for name, value in row.items() if name in tests}
                good.append(_check(set_types.convert(row, converters), tests, schema))
            except BadLine as error:
                bad.append(BadRow.of((f"line {number}", line), str(error)))
    columns = _columns(good, schema, only_schema)
    if columns is None:
        raise PenstockError(f"lines from {block.line}: checked values do not fit the schema; please report this")
    return RowBatch(columns, bad, _describer(block, bad), _numberer(block, len(good), bad))


def _check(row: Row, tests: Mapping[str, Callable[[Any], bool]], schema: pa.Schema) -> Row:
    """Returns a row if all of it fits the schema, without empty objects that are not in place of a value."""
    row = {name: value for name, value in row.items() if value != {} or _replaces_value(name, tests)}
    for name, value in row.items():
        if name not in tests:
            raise BadLine(f"key {name!r} is not in the schema; its value is {show(value)}")
        if value is not None and not tests[name](value):
            raise BadLine(f"key {name!r}: {show(value)} is not {_expected(schema.field(name).type)}")
    return row


def _replaces_value(name: str, columns: Iterable[str]) -> bool:
    """Whether an object is in the place of a column, or inside such an object."""
    return any(name == column or name.startswith(f"{column}.") for column in columns)


def _test(kind: pa.DataType, *, nan: bool = False) -> Callable[[Any], bool]:
    """Returns a function that tests one value as `_array` tests many."""
    if is_list(kind):
        each = _test(kind.value_type)
        return lambda value: type(value) is list and all(map(each, value))
    types = _python_types(kind)
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        low, high = int(limits.min), int(limits.max)
        return lambda value: type(value) in types and low <= value <= high
    if pa.types.is_floating(kind):
        return lambda value: type(value) in types and (nan or abs(value) < OVERFLOW)
    return lambda value: type(value) in types


def _expected(kind: pa.DataType) -> str:
    single = value_type(kind)
    range_of = " in the range of 32-bit floats" if pa.types.is_floating(single) else ""
    return f"of type {'list of ' if is_list(kind) else ''}{single}{range_of}"
