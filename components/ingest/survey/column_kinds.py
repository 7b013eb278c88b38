"""Which columns of strings are more than categories: the text that a task reads, and dates; and which are not used.

Found by name, or by what stands in the first rows; kept in the metadata of the field, and told in the schema's tags.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from components.errors import BadInput, SettingsError
from components.ingest.sources.rows import RowSource
from components.ingest.survey import columns, references
from components.records.roles import DATE_PATTERN
from components.records.schema import DATE, TEXT, UNUSED
from components.storage.paths import DataPath

MEANING = b"meaning"
# In the order in which they are looked for, whatever their case.
TEXTS = (
    "text", "texts", "sentence", "document", "content", "body", "review", "comment", "message", "question", "prompt",
    "description", "title",
)  # fmt: skip
_SAMPLE = 50  # values by which a column is known
_IS_DATE = re.compile(DATE_PATTERN, re.ASCII)  # as RE2 reads it


def text_column(path: DataPath, schema: pa.Schema, asked: str, others: Collection[str]) -> str:
    """Returns the column of the text: the one asked for, else one that is called so, else the only one there is."""
    if asked:
        return columns.known(schema, asked, "text")
    names = [name for name in _strings(schema) if name not in others]
    called = [name for wanted in TEXTS for name in names if name.lower() == wanted]
    if called or len(names) == 1:
        return (called or names)[0]
    found = f"{len(names)} could be it ({', '.join(names)})" if names else f"none of {', '.join(schema.names)} is text"
    raise BadInput(f"{path}: no column for the text: {found}; name it with --set ingest.text=COLUMN")


def date_columns(source: RowSource, path: DataPath, schema: pa.Schema, others: Collection[str]) -> list[str]:
    """Returns the columns whose first values are all dates."""
    names = [name for name in _strings(schema) if name not in others]
    if not names:
        return []
    sample = references.first_rows(source, path, schema)
    return [name for name in names if _are_dates(sample.column(schema.get_field_index(name)))]


def unused_columns(schema: pa.Schema, asked: Sequence[str], needed: Collection[str]) -> list[str]:
    """Returns the columns that are left out of the model; the label and images cannot be."""
    for name in asked:
        if columns.known(schema, name, "unused") in needed:
            raise SettingsError(f"setting ingest.unused: the model needs {name!r}; take it out of the list")
    return list(asked)


def marked(schema: pa.Schema, text: str, dates: Sequence[str], unused: Sequence[str] = ()) -> pa.Schema:
    """Returns the schema with what is known of its columns."""
    for name, meaning in ((text, TEXT), *((name, DATE) for name in dates), *((name, UNUSED) for name in unused)):
        if name:
            place = schema.get_field_index(name)
            field = schema.field(place)
            schema = schema.set(place, field.with_metadata({**(field.metadata or {}), MEANING: meaning.encode()}))
    return schema


def meaning_of(field: pa.Field) -> str:
    """Returns what a column is marked as; empty if it is not."""
    return str((field.metadata or {}).get(MEANING, b"").decode())


def _strings(schema: pa.Schema) -> Iterator[str]:
    for field in schema:
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            yield field.name


def _are_dates(values: pa.Array) -> bool:
    some = list(islice(filter(None, values.to_pylist()), _SAMPLE))
    return bool(some) and all(map(_IS_DATE.match, some))
