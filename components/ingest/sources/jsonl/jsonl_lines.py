"""Lines of a JSON Lines file: parsing one object, and inferring the types of columns from many.

- {"a": {"b": 1}} is the column "a.b"; deeper objects, and lists in lists, are rejected;
- a column has the type of most of its values; an integer counts as a float if the column has floats.
"""

import contextlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import orjson
import pyarrow as pa

from components.ingest.sources.conversion import shorten
from components.ingest.sources.rows import bad_file
from components.storage.paths import DataPath

Row = dict[str, Any]
ValueKind = tuple[bool, type | None]  # whether it is a list, and of what; an empty list is of None

_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BadLine(ValueError):
    """A line cannot become a record; the message is the reason."""


def parse(line: bytes) -> Row:
    """Returns the values of a line."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        row = _with_nan(line)
        if row is None:
            raise BadLine(f"not JSON: {error.msg} (character {error.colno})") from None
    if not isinstance(row, dict):
        raise BadLine(f"not a JSON object but {show(row)}")
    return flatten(row)


def _with_nan(line: bytes) -> Any:
    """Returns the value of a line that is JSON but for NaN and Infinity, which Python and NumPy write; else None."""
    if b"NaN" in line or b"Infinity" in line:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            value = json.loads(line)
            orjson.dumps(value)  # rejects what Python alone accepts, such as half of a surrogate pair
            return value
    return None


def flatten(row: Row) -> Row:
    """Returns a row with the values of inner objects under dotted names."""
    if dict not in map(type, row.values()):
        return row
    flat: Row = {}
    for key, value in row.items():
        if not isinstance(value, dict) or not value:  # an empty object may be in place of a value
            inner = {key: value}
        else:
            inner = {f"{key}.{name}": each for name, each in value.items()}
        if twice := sorted(flat.keys() & inner.keys()):
            raise BadLine(f"key {twice[0]!r} occurs twice, with a dot and as an object")
        flat |= inner
    return flat


def infer(path: DataPath, lines: Iterable[tuple[int, bytes]]) -> pa.Schema:
    """Returns the keys of numbered lines, each with the type of most of its values."""
    votes: dict[str, Counter[ValueKind]] = defaultdict(Counter)
    for number, line in lines:
        for name, value in _sample(path, number, line).items():
            counts = votes[name]
            if value is not None and (kind := _kind(value)):
                counts[kind] += 1
    if "" in votes:
        raise bad_file(path, "a key is empty; give it a name")
    return pa.schema([(name, _elect(counts)) for name, counts in votes.items()])


def show(value: Any) -> str:
    """Returns a value for a message."""
    shown = orjson.dumps(value).decode()
    return shorten(_dump(value) if "null" in shown else shown)  # orjson writes NaN as null


def _sample(path: DataPath, number: int, line: bytes) -> Row:
    """Returns the values of a line; none if the line is bad."""
    try:
        row = {name: value for name, value in parse(line).items() if value != {}} if line.strip() else {}
    except BadLine:
        return {}
    for name, value in row.items():
        if isinstance(value, dict) or (isinstance(value, list) and {dict, list} & set(map(type, value))):
            raise bad_file(
                path,
                f"line {number}: key {name!r} is nested too deep: {show(value)}; expected values, lists of values, "
                "and objects of both: flatten it, or remove the key",
            )
    return row


def _kind(value: Any) -> ValueKind | None:
    """Returns the kind of a value; None for NaN, infinity, and a list of mixed or unsupported values."""
    if not isinstance(value, list):
        return None if isinstance(value, float) and not math.isfinite(value) else (False, type(value))
    inner = set(map(type, value))
    if inner == {int, float}:
        return True, float
    if len(inner) > 1 or inner - _TYPES.keys():
        return None
    return True, inner.pop() if inner else None


def _elect(counts: Counter[ValueKind]) -> pa.DataType:
    """Returns the type of most values; the first one seen if several are equally frequent."""
    for listed in (False, True):
        if (listed, float) in counts:
            counts[listed, float] += counts.pop((listed, int), 0)
    empty = counts.pop((True, None), 0)
    for kind in [kind for kind in counts if kind[0]] or ([(True, str)] if empty else []):
        counts[kind] += empty
    listed, of = max(counts, key=counts.__getitem__, default=(False, str))
    return pa.list_(_TYPES[of or str]) if listed else _TYPES[of or str]
