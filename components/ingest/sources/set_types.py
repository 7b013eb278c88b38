"""Converts values of formats with types of their own (JSON, TFRecord) to the types that the user has set.

    {"code": 7}, ingest.columns.code = "text" ─► "7"          {"price": "7.5"}, ingest.columns.price = "float" ─► 7.5

A value that cannot be converted is left unchanged, and later reported as a value of the wrong type.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pyarrow as pa

SET_BY_USER = b"set by user"  # in the metadata of a field

Convert = Callable[[Any], Any]

_INTEGER = re.compile(r"\s*(-?[0-9]+)(\.0+)?\s*")
_NUMBER = re.compile(r"\s*-?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?\s*")
_BOOLEANS = {"1": True, "0": False, "true": True, "false": False}


def is_set_by_user(field: pa.Field) -> bool:
    """Whether the user has set the type of a column."""
    return SET_BY_USER in (field.metadata or {})


def converters(schema: pa.Schema) -> dict[str, Convert]:
    """Returns a conversion for each column whose type the user has set."""
    changed = filter(is_set_by_user, schema)
    return {field.name: _converter(getattr(field.type, "value_type", field.type)) for field in changed}


def convert(row: dict[str, Any], by_name: Mapping[str, Convert]) -> dict[str, Any]:
    """Returns a row with its values converted, also inside lists; a missing value stays missing."""
    for name, change in by_name.items():
        value = row.get(name)
        if value is not None:
            row[name] = list(map(change, value)) if isinstance(value, list) else change(value)
    return row


def _converter(kind: pa.DataType) -> Convert:
    if pa.types.is_boolean(kind):
        return lambda value: _BOOLEANS.get(_text(value).lower(), value)
    if pa.types.is_integer(kind):
        return _integer
    if pa.types.is_floating(kind):
        return _number
    return _text if pa.types.is_string(kind) else _bytes


def _text(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # orjson writes null
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _bytes(value: Any) -> bytes:
    return _text(value).encode()


def _integer(value: Any) -> Any:
    found = _INTEGER.fullmatch(_text(value))
    return int(found[1]) if found else value


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
