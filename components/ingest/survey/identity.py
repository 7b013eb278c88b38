"""Which columns identify a record: not ids, and not columns that no model reads.

    all columns but the label ─┬─ ids, `ingest.unused` ─► stored in the record, left out of its identity
                               └─ all others           ─► identity: decides the split, finds duplicates

So the same text under another id is a duplicate, in the same split. A column is an id if its values in the first rows
are different from each other and none is missing, and if
- it has a name such as id, user_id, uuid or key, or none, and holds integers or short strings, or
- all its values are UUIDs.
Ids do identify a record if the other columns have few different contents in the first rows: sex and smoker do not
identify a person, and all records of one content would go to one split.
"""

import re
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.ingest.sources.conversion import is_list, is_text
from components.ingest.sources.rows import Sample
from components.ingest.survey.columns import mark, meaning_of
from components.records.schema import UNUSED

_ID, _COMPARED = b"id", b"compared"  # key in the metadata of a field; its value if the id takes part
_NAME = re.compile(
    r"(.*[^a-z])?(id|uuid|guid)|key|index|idx|identifier|.*[a-z](Id|ID)|\s*|unnamed(:? ?[0-9]+)?", re.DOTALL
)  # pandas calls a column without a name "Unnamed: 0"
_UUID = r"^\s*\{?[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?\s*$"
_SHORT = 64  # characters: a longer string is content
_MIN_DISTINCT = 0.25  # contents per row of the first rows, without ids: below it ids take part


def with_ids(schema: pa.Schema, sample: Sample, label: str, others: Collection[str]) -> pa.Schema:
    """Returns the schema with ids marked.

    Args:
        schema: the columns of the table.
        sample: its first rows.
        label: the label column, or empty.
        others: columns that have another meaning: label, text, images.
    """
    candidates = [field for field in schema if field.name not in others and _may_be_id(field)]
    if not candidates:
        return schema
    ids = [field for field in candidates if _is_id(field, sample.column(field.name))]
    names = {label, *(field.name for field in ids)}
    rest = [
        column
        for field, column in zip(schema, sample.rows.columns, strict=True)
        if field.name not in names and meaning_of(field) != UNUSED
    ]
    value = b"" if _have_many_contents(rest, sample.rows.num_rows) else _COMPARED
    for field in ids:
        schema = mark(schema, field.name, _ID, value)
    return schema


def left_out(schema: pa.Schema, label: str) -> list[str]:
    """Returns the columns that do not identify a record; none if no other column but the label would be left."""
    names = [field.name for field in schema if meaning_of(field) == UNUSED or (field.metadata or {}).get(_ID) == b""]
    return names if set(schema.names) - {label, *names} else []


def warning(schema: pa.Schema, inputs: Collection[str], unused: Sequence[str]) -> str:
    """Returns which ids are inputs of a model that reads columns of these roles; "" if none is."""
    ids = [field for field in schema if is_id(field) and field.name not in unused]
    names = [field.name for field in ids if ("category" if is_text(field.type) else "number") in inputs]
    if not names:
        return ""
    several = len(names) > 1
    what = "look like ids and are inputs" if several else "looks like an id and is an input"
    setting = f"--set ingest.unused={','.join([*unused, *names])} leaves {'them' if several else 'it'} out"
    return f"{', '.join(names)} {what} of the model; {setting}"


def is_id(field: pa.Field) -> bool:
    """Whether a column was found to be an id."""
    return _ID in (field.metadata or {})


def _may_be_id(field: pa.Field) -> bool:
    return is_text(field.type) or (bool(pa.types.is_integer(field.type)) and _has_id_name(field))


def _has_id_name(field: pa.Field) -> bool:
    return bool(_NAME.fullmatch(field.name) or _NAME.fullmatch(field.name.lower()))


def _is_id(field: pa.Field, values: pa.Array) -> bool:
    if not len(values) or values.null_count:
        return False
    if _has_id_name(field):
        fits = not is_text(field.type) or pc.max(pc.utf8_length(values)).as_py() <= _SHORT
    else:
        fits = pc.all(pc.match_substring_regex(values, _UUID)).as_py()
    return bool(fits and pc.count_distinct(values).as_py() == len(values))


def _have_many_contents(columns: Sequence[pa.Array], rows: int) -> bool:
    """Whether the rows have many different contents."""
    contents = np.zeros(rows, np.int64)
    for column in sorted(columns, key=lambda column: is_list(column.type)):  # the slow ones last
        values = pa.array(map(repr, column.to_pylist())) if is_list(column.type) else column
        codes = values.dictionary_encode("encode").indices.to_numpy()
        distinct, contents = np.unique(contents * rows + codes, return_inverse=True)
        if len(distinct) >= _MIN_DISTINCT * rows:
            return True
    return False
