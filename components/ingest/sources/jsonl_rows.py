"""Rows of a JSON Lines file, plain or gzip: an object a line.

    block of text ─► orjson, a line at a time ─► columns ─► types checked, a column at a time  (all is clean: as usual)
                                                    └─► values checked one by one ─► good rows, and bad rows

What becomes of a value:
- truth, integer, float, string, and lists of one of them; an integer may stand where a float is expected;
- {"a": {"b": 1}} is the column "a.b"; objects inside that are refused, and so are lists inside lists; {} holds nothing,
  and is bad only where a value is expected;
- null, and a key that a line does not have, is a missing value;
- NaN, infinity and what a 32-bit float cannot hold, integers beyond the column's type, a value of another type, a key
  that the schema does not have: the line is bad. A key that occurs twice in one object: the last one counts;
- in a column whose type the user has set, text with a number or truth in it becomes one, and the other way round.

Lines with nothing in them are no rows. pyarrow's own reader is not used: on what is not quite JSON Lines (two objects
in a line, one object over two) it decides otherwise than a reader of lines, so a row would depend on its neighbours.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from components.errors import BadInput, PenstockError
from components.ingest.sources import set_types, text_ranges
from components.ingest.sources.rows import BadRow, Range, RowBatch
from components.ingest.sources.text_ranges import LARGEST, SAMPLE, Block, LineEnds, out_of_range, shortened, shown
from components.records.quarantine import RAW_LIMIT
from components.storage.paths import DataPath

Row = dict[str, Any]
Kind = tuple[bool, type | None]  # whether it is a list, and of what; an empty list is of nothing

_BLOCK = 2 << 20  # bytes of text that are parsed at once: 4 MB of it as Python objects is more than caches hold
_EXPECTED = "expected a JSON object a line"
_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


class _Bad(ValueError):
    """A line cannot become a record; the message is the reason."""


class JsonlRows:
    """Reads objects in lines."""

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the keys in the first megabyte, each with the type that most of its values have."""
        votes: dict[str, Counter[Kind]] = defaultdict(Counter)
        first = _first_rows(path)
        for number, line in enumerate(first.data.splitlines(), first.line):
            for name, value in _sample(path, number, line).items():
                counts = votes[name]
                if value is not None and (kind := _kind(value)):
                    counts[kind] += 1
        if not votes:
            raise BadInput(f"{shown(path)}: 0 examples in its first {len(first.data)} bytes; {_EXPECTED}")
        if "" in votes:
            raise BadInput(f"{shown(path)}: a key is empty; give it a name")
        return pa.schema([(name, _elected(counts)) for name, counts in votes.items()])

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Cuts at line ends."""
        _first_rows(path)
        whole = replace(text_ranges.whole(path), path=relative)
        return text_ranges.divide(path, text_ranges.find_line_ends, whole, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads a range, about two megabytes of text at a time."""
        _check_schema(path, schema)
        for block in text_ranges.blocks(path, text_ranges.find_line_ends, part, _BLOCK):
            batch = _read_clean(block, schema) or _read_dirty(block, schema)
            if batch.columns.num_rows or batch.bad:
                yield batch


SOURCE = JsonlRows()


def _first_rows(path: DataPath) -> Block[LineEnds]:
    """Returns about a megabyte of lines; a file without any is refused."""
    for block in text_ranges.blocks(path, text_ranges.find_line_ends, text_ranges.whole(path), SAMPLE):
        if block.data.strip():
            return block
    raise BadInput(f"{shown(path)}: 0 examples in it; {_EXPECTED}")


def _sample(path: DataPath, number: int, line: bytes) -> Row:
    """Returns the values of a line; nothing of one that will be bad when it is read."""
    try:
        row = {name: value for name, value in _parse(line).items() if value != {}} if line.strip() else {}
    except _Bad:
        return {}
    for name, value in row.items():
        if isinstance(value, dict) or (isinstance(value, list) and {dict, list} & set(map(type, value))):
            raise BadInput(
                f"{shown(path)}: line {number}: key {name!r} is nested too deep: {_json(value)}; expected values, "
                "lists of values, and objects of both: flatten it, or leave the key out"
            )
    return row


def _kind(value: Any) -> Kind | None:
    """Returns the kind of a value; None of a list that is of no kind."""
    if not isinstance(value, list):
        return False, type(value)
    inner = set(map(type, value))
    if inner == {int, float}:
        return True, float
    if len(inner) > 1 or inner - _TYPES.keys():
        return None
    return True, inner.pop() if inner else None


def _elected(counts: Counter[Kind]) -> pa.DataType:
    """Returns the type of most values; the first one seen, if several are as frequent."""
    for listed in (False, True):
        if (listed, float) in counts:
            counts[listed, float] += counts.pop((listed, int), 0)
    empty = counts.pop((True, None), 0)
    for kind in [kind for kind in counts if kind[0]] or ([(True, str)] if empty else []):
        counts[kind] += empty
    listed, of = max(counts, key=counts.__getitem__, default=(False, str))
    return pa.list_(_TYPES[of or str]) if listed else _TYPES[of or str]


def _check_schema(path: DataPath, schema: pa.Schema) -> None:
    for field in schema:
        if _types(_element(field.type)) is None:
            raise BadInput(f"{shown(path)}: column {field.name}: JSON cannot be read as {field.type}")


def _element(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if _is_list(kind) else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _types(kind: pa.DataType) -> set[type] | None:
    """Returns what Python types may become values of a type."""
    if pa.types.is_boolean(kind):
        return {bool}
    if pa.types.is_integer(kind):
        return {int}
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return {int, float}
    if pa.types.is_binary(kind):
        return {bytes}
    return {str} if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None


def _read_clean(block: Block[LineEnds], schema: pa.Schema) -> RowBatch | None:
    """Reads a block, its values a column at a time; None if anything is wrong with any line of it."""
    try:
        rows = [orjson.loads(line) for line in block.data.splitlines() if line and not line.isspace()]
        if set(map(type, rows)) - {dict}:
            return None
        if any("." in name for name in schema.names):
            rows = [_flatten(row) for row in rows]
        if wanted := set_types.converters(schema):
            rows = [set_types.convert(row, wanted) for row in rows]
    except (orjson.JSONDecodeError, _Bad):
        return None
    columns = _columns(rows, schema)
    return None if columns is None else RowBatch(columns, describe=_describer(block, ()))


def _describer(block: Block[LineEnds], bad: Sequence[BadRow]) -> Callable[[int], tuple[str, bytes]]:
    """Returns what tells position and text of the good rows of a block."""

    @cache
    def lines() -> list[tuple[str, bytes]]:
        positions = {row.position for row in bad}
        told = ((f"line {number}", line) for number, line in enumerate(block.data.splitlines(), block.line))
        return [(position, line) for position, line in told if line.strip() and position not in positions]

    return lambda row: lines()[row]


def _columns(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch | None:
    """Returns rows as columns; None if a key or value is not of the schema."""
    shapes = set(map(tuple, rows))
    if set().union(*shapes) - set(schema.names):
        return None
    if len(shapes) == 1:  # every line has the same keys in the same order, as programs write them
        (keys,), flat = shapes, list(chain.from_iterable(map(dict.values, rows)))
        values = {key: flat[place :: len(keys)] for place, key in enumerate(keys)}
    else:
        values = {name: [row.get(name) for row in rows] for name in schema.names}
    arrays = []
    for field in schema:
        array = _array(values.get(field.name, [None] * len(rows)), field.type)
        if array is None:
            return None
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """Returns values as an array; None if one of them is not of its type: pyarrow would make 1 of 1.5 and of True."""
    element, found = _element(kind), set(map(type, values)) - {type(None)}
    if _is_list(kind):
        if found - {list}:
            return None
        found = set(map(type, chain.from_iterable(filter(None, values))))
    if found - (_types(element) or set()):
        return None
    if pa.types.is_floating(element) and int in found:
        values = _as_floats(values, listed=_is_list(kind))  # pyarrow refuses integers that a float would round
    try:
        array = pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError):  # beyond the type
        return None
    numbers = array.flatten() if _is_list(kind) else array
    return None if pa.types.is_floating(element) and out_of_range(numbers).any() else array


def _as_floats(values: Iterable[Any], *, listed: bool) -> list[Any]:
    if listed:
        return [None if value is None else _as_floats(value, listed=False) for value in values]
    return [None if value is None else float(value) for value in values]


def _read_dirty(block: Block[LineEnds], schema: pa.Schema) -> RowBatch:
    """Reads a block with bad lines in it, and tells what is wrong with each."""
    tests = {field.name: _test(field.type) for field in schema}
    wanted = set_types.converters(schema)
    good, bad = [], []
    for number, line in enumerate(block.data.splitlines(), block.line):
        if line.strip():
            try:
                good.append(_checked(set_types.convert(_parse(line), wanted), tests, schema))
            except _Bad as error:
                bad.append(BadRow(f"line {number}", str(error), line[:RAW_LIMIT]))
    columns = _columns(good, schema)
    if columns is None:
        raise PenstockError(f"lines {block.line} and on: values that were checked do not fit; please report this")
    return RowBatch(columns, bad, _describer(block, bad))


def _parse(line: bytes) -> Row:
    """Returns the values of a line."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _Bad(f"not JSON: {error.msg} (character {error.colno})") from None
    if not isinstance(row, dict):
        raise _Bad(f"not a JSON object but {_json(row)}")
    return _flatten(row)


def _flatten(row: Row) -> Row:
    """Returns a row with the values of inner objects under dotted names."""
    if dict not in map(type, row.values()):
        return row
    flat: Row = {}
    for key, value in row.items():
        if not isinstance(value, dict) or not value:  # an empty object may stand where a value is expected
            inner = {key: value}
        else:
            inner = {f"{key}.{name}": each for name, each in value.items()}
        if twice := sorted(flat.keys() & inner.keys()):
            raise _Bad(f"key {twice[0]!r} occurs twice, with a dot and as an object")
        flat |= inner
    return flat


def _checked(row: Row, tests: Mapping[str, Callable[[Any], bool]], schema: pa.Schema) -> Row:
    """Returns a row if all of it is of the schema."""
    row = {name: value for name, value in row.items() if value != {} or _stands_for_a_value(name, tests)}
    for name, value in row.items():
        if name not in tests:
            raise _Bad(f"key {name!r} is not in the schema; its value is {_json(value)}")
        if value is not None and not tests[name](value):
            raise _Bad(f"key {name!r}: {_json(value)} is not {_expected(schema.field(name).type)}")
    return row


def _stands_for_a_value(name: str, columns: Iterable[str]) -> bool:
    """Whether an object is in the place of a column, or inside one that is."""
    return any(name == column or name.startswith(f"{column}.") for column in columns)


def _test(kind: pa.DataType) -> Callable[[Any], bool]:
    """Returns a function that tells whether a value is of a type; the same that `_array` tells of many."""
    if _is_list(kind):
        each = _test(kind.value_type)
        return lambda value: type(value) is list and all(map(each, value))
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        low, high = int(limits.min), int(limits.max)
        return lambda value: type(value) is int and low <= value <= high
    if pa.types.is_floating(kind):
        return lambda value: type(value) in {int, float} and abs(value) <= LARGEST
    expected = bool if pa.types.is_boolean(kind) else bytes if pa.types.is_binary(kind) else str
    return lambda value: type(value) is expected


def _expected(kind: pa.DataType) -> str:
    range_of = " in the range of 32-bit floats" if pa.types.is_floating(_element(kind)) else ""
    return f"of type {'list of ' if _is_list(kind) else ''}{_element(kind)}{range_of}"


def _json(value: Any) -> str:
    return shortened(orjson.dumps(value).decode())
