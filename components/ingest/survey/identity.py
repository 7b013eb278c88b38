"""Which columns identify a record: not ids, and not columns that no model reads.

    all columns but the label ─┬─ ids, `ingest.unused` ─► stored in the record, left out of its identity
                               └─ all others           ─► identity: decides the split, finds duplicates

So the same text under another id is a duplicate, in the same split. A column is an id if its values in the first rows
are different from each other and none is missing, and if
- it has a name such as id, user_id, uuid or key, and holds integers or short strings, or
- all its values are UUIDs, or
- it is the first column and numbers the rows.
A wrong guess loses nothing: every record is kept, and only the choice of its split has a column less.
"""

import re
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from components.ingest.sources.conversion import is_text
from components.ingest.sources.rows import RowSource, first_rows
from components.ingest.survey.columns import meaning_of
from components.records.schema import UNUSED
from components.storage.paths import DataPath

_ID = b"id"  # in the metadata of a field
_NAME = re.compile(r"(.*[^a-z])?(id|uuid|guid)|key|index|idx|identifier|.*[a-z](Id|ID)", re.DOTALL)
_UUID = r"^\s*\{?[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?\s*$"
_SHORT = 64  # characters: a longer string is content
_COUNTED = 10  # rows: fewer may be consecutive by chance


def with_ids(source: RowSource, path: DataPath, schema: pa.Schema, others: Collection[str]) -> pa.Schema:
    """Returns the schema with ids marked.

    Args:
        source: reads the file.
        path: a file of the table, of which the first rows are read.
        schema: its columns.
        others: columns that have another meaning: label, text, images.
    """
    candidates = [field for field in schema if field.name not in others and _may_be_id(field, schema)]
    if not candidates:
        return schema
    rows = first_rows(source, path, schema)
    for field in candidates:
        place = schema.get_field_index(field.name)
        if _is_id(field, rows.column(place), first=place == 0):
            schema = schema.set(place, field.with_metadata({**(field.metadata or {}), _ID: b""}))
    return schema


def left_out(schema: pa.Schema, label: str) -> list[str]:
    """Returns the columns that do not identify a record; none if no other column but the label would be left."""
    names = [field.name for field in schema if meaning_of(field) == UNUSED or is_id(field)]
    return names if set(schema.names) - {label, *names} else []


def is_id(field: pa.Field) -> bool:
    """Whether a column was found to be an id."""
    return _ID in (field.metadata or {})


def _may_be_id(field: pa.Field, schema: pa.Schema) -> bool:
    if is_text(field.type):
        return True
    return bool(pa.types.is_integer(field.type)) and (_has_id_name(field) or field.name == schema.names[0])


def _has_id_name(field: pa.Field) -> bool:
    return bool(_NAME.fullmatch(field.name) or _NAME.fullmatch(field.name.lower()))


def _is_id(field: pa.Field, values: pa.Array, *, first: bool) -> bool:
    if not len(values) or values.null_count:
        return False
    if _has_id_name(field):
        short = not is_text(field.type) or pc.max(pc.utf8_length(values)).as_py() <= _SHORT
        return short and _are_distinct(values)
    if is_text(field.type):
        return bool(pc.all(pc.match_substring_regex(values, _UUID)).as_py()) and _are_distinct(values)
    numbers = values.to_numpy()
    return first and len(numbers) >= _COUNTED and bool((numbers[1:] - numbers[:-1] == 1).all())


def _are_distinct(values: pa.Array) -> bool:
    return bool(pc.count_distinct(values).as_py() == len(values))
