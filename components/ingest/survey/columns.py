"""What the columns of a table are: label, text, dates, unused columns, types set by the user, and names in records.

    schema inferred by a source ─► types from the settings ─► label, text, dates, unused ─► names in the record

The source itself reads a column with the type that the user sets, so a code such as 007 that was inferred as a number
comes back as it is in the file. The meaning of a column (text, date, unused) is stored in the metadata of its field,
and later in the tags of the schema.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice

import pyarrow as pa

from components.errors import BadInput, SettingsError
from components.ingest.sources.conversion import is_list, is_text
from components.ingest.sources.rows import Sample
from components.ingest.sources.set_types import SET_BY_USER
from components.records.roles import DATE_PATTERN
from components.records.schema import DATE, TEXT, UNUSED
from components.settings.ingest import ColumnType
from components.settings.names import nearest
from components.storage.paths import DataPath

# Names of label and text columns, in order of preference, in any case. Other programs write paths: image/class/label.
LABELS = ("label", "labels", "class", "classes", "target", "targets", "y", "category", "class_label", "class_name")
TEXTS = (
    "text", "texts", "sentence", "document", "content", "body", "review", "comment", "message", "question", "prompt",
    "description", "title",
)  # fmt: skip
SAMPLE = 50  # values that decide what a column holds
_IMAGE, _IDS = "image", ("id", "record_id")
_MEANING, _WAS_NUMBER = b"meaning", b"was number"
_IS_DATE = re.compile(DATE_PATTERN, re.ASCII)  # as RE2 reads it
Prose = Callable[[Sequence[str]], list[str]]  # takes names of columns
_TYPES: Mapping[ColumnType, tuple[pa.DataType, Callable[[pa.DataType], bool]]] = {  # and whether a type is of that kind
    "int": (pa.int64(), pa.types.is_integer),
    "float": (pa.float64(), pa.types.is_floating),
    "bool": (pa.bool_(), pa.types.is_boolean),
    "text": (pa.string(), is_text),
    "bytes": (pa.binary(), pa.types.is_binary),
}


def check_column(schema: pa.Schema, name: str, setting: str) -> str:
    """Returns the name of an existing column; otherwise reports a wrong setting, with the nearest name."""
    if name not in schema.names:
        raise SettingsError(f"setting ingest.{setting}: no column {name!r} in the data; {nearest(name, schema.names)}")
    return name


def label_column(schema: pa.Schema, setting: str) -> str:
    """Returns the label column: the one in the setting, else the first with a usual name, else ""."""
    if setting:
        return check_column(schema, setting, "label")
    single = [field.name for field in schema if not is_list(field.type) and not is_tensor(field)]
    for wanted in LABELS:
        for normalize in (str.lower, _last_part):
            if found := [name for name in single if normalize(name) == wanted]:
                return found[0]
    return ""


def text_columns(
    path: DataPath, schema: pa.Schema, setting: Sequence[str], others: Collection[str], prose: Prose,
    *, required: bool = True,
) -> tuple[str, ...]:  # fmt: skip
    """Returns the text columns: those in the setting, else the first with a usual name, else the only string column.

    Args:
        path: a file of the table, for messages.
        schema: its columns.
        setting: `ingest.text`.
        others: columns that have another meaning.
        prose: returns which of some columns hold free text.
        required: whether a text column must be found if the setting has none.
    """
    for name in setting:
        kind = schema.field(check_column(schema, name, "text")).type
        if name in others or not (is_text(kind) or pa.types.is_binary(kind)):
            use = (
                "has another use" if name in others else f"is {kind}, expected text (--set ingest.columns.{name}=text)"
            )
            raise SettingsError(f"setting ingest.text: column {name!r} {use}")
    if twice := [name for number, name in enumerate(setting) if name in setting[:number]]:
        raise SettingsError(f"setting ingest.text: column {twice[0]!r} occurs twice; name each column once")
    if setting or not required:
        return tuple(setting)
    names = [name for name in strings(schema) if name not in others]
    usual = [name for wanted in TEXTS for name in names if name.lower() == wanted]
    if usual or len(names) == 1:
        return ((usual or names)[0],)
    found = f"{len(names)} candidates ({', '.join(names)})" if names else f"none of {', '.join(schema.names)} is text"
    several = prose(names)
    join = f", or join several: --set ingest.text={','.join(several)}" if len(several) > 1 else ""
    raise BadInput(f"{path}: no column for the text: {found}; name it with --set ingest.text=COLUMN{join}")


def date_columns(sample: Sample, others: Collection[str]) -> list[str]:
    """Returns the columns whose first values are all dates."""
    return [name for name in strings(sample.schema) if name not in others and are_dates(sample.column(name))]


def unused_columns(schema: pa.Schema, setting: Sequence[str], needed: Collection[str]) -> list[str]:
    """Returns the columns that models do not use; rejects a column that is needed, such as the label."""
    for name in setting:
        if check_column(schema, name, "unused") in needed:
            raise SettingsError(f"setting ingest.unused: the model needs {name!r}; remove it from the list")
    return list(setting)


def with_types(schema: pa.Schema, overrides: Mapping[str, ColumnType]) -> pa.Schema:
    """Returns the schema with the types that the user has set; for a list, the type of its values."""
    for name, kind in overrides.items():
        place = schema.get_field_index(check_column(schema, name, "columns"))
        field = schema.field(place)
        if is_tensor(field) and kind != "bytes":
            raise SettingsError(f"setting ingest.columns: {name!r} is a tensor of {shape_of(field)}, expected bytes")
        single, _ = _TYPES[kind]
        wanted = pa.list_(single) if is_list(field.type) else single
        schema = mark(schema.set(place, field.with_type(wanted)), name, SET_BY_USER)
    return schema


def with_class_names(schema: pa.Schema, label: str) -> pa.Schema:
    """Returns the schema with the label as text, unless the label is a float."""
    kind = schema.field(label).type
    if pa.types.is_floating(kind):
        return schema
    named = with_types(schema, {label: "text"})
    return mark(named, label, _WAS_NUMBER) if pa.types.is_integer(kind) or pa.types.is_boolean(kind) else named


def was_number(field: pa.Field) -> bool:
    """Whether a label of text was inferred as a number: spellings of a missing number are then no classes."""
    return _WAS_NUMBER in (field.metadata or {})


def with_meanings(
    schema: pa.Schema, text: Sequence[str], dates: Sequence[str] = (), unused: Sequence[str] = ()
) -> pa.Schema:
    """Returns the schema with the meanings of its columns in the metadata of the fields."""
    for names, meaning in ((text, TEXT), (dates, DATE), (unused, UNUSED)):
        for name in names:
            schema = mark(schema, name, _MEANING, meaning.encode())
    return schema


def meaning_of(field: pa.Field) -> str:
    """Returns the meaning of a column, or ""."""
    return str((field.metadata or {}).get(_MEANING, b"").decode())


def record_schema(schema: pa.Schema, images: str = "") -> pa.Schema:
    """Returns the columns of records: images instead of their paths, and the record id."""
    if images:
        schema = schema.set(schema.get_field_index(images), pa.field(image_name(schema, images), pa.binary()))
    return schema.append(pa.field(id_name(schema), pa.int64()))


def image_name(schema: pa.Schema, images: str) -> str:
    """Returns the name of the image column in records whose rows have image paths in the column `images`."""
    return images if _IMAGE in schema.names else _IMAGE


def id_name(schema: pa.Schema) -> str:
    """Returns the name of the record id column, which never replaces a column of the user."""
    names = chain(_IDS, (f"{_IDS[-1]}_{number}" for number in count(2)))
    return next(name for name in names if name not in schema.names)


def describe(schema: pa.Schema, label: str, images: str = "") -> list[tuple[str, str, str]]:
    """Returns name, type and a note for every column, to show to the user."""
    return [(field.name, _type_name(field), _note(field, label, images)) for field in schema]


def is_tensor(field: pa.Field) -> bool:
    """Whether a column holds the raw bytes of a tensor; dtype and shape are in the metadata of the field."""
    return b"dtype" in (field.metadata or {})


def shape_of(field: pa.Field) -> str:
    """Returns dtype and shape of a tensor to show to the user, such as "float32 28 x 28"."""
    import numpy as np

    shape = field.metadata.get(b"shape", b"").decode().replace(",", " x ")
    return f"{np.dtype(field.metadata[b'dtype'].decode()).name} {shape}".strip()


def first_values(column: pa.Array) -> list[str]:
    """Returns up to `SAMPLE` values that are neither missing nor empty."""
    return list(islice(filter(None, column.to_pylist()), SAMPLE))


def mark(schema: pa.Schema, name: str, key: bytes, value: bytes = b"") -> pa.Schema:
    """Returns the schema with one more entry in the metadata of a column."""
    place = schema.get_field_index(name)
    field = schema.field(place)
    return schema.set(place, field.with_metadata({**(field.metadata or {}), key: value}))


def strings(schema: pa.Schema) -> Iterator[str]:
    """Yields the names of the columns with one string per row."""
    return (field.name for field in schema if is_text(field.type))


def are_dates(values: pa.Array) -> bool:
    """Whether the first values are all dates."""
    sample = first_values(values)
    return bool(sample) and all(map(_IS_DATE.match, sample))


def _last_part(name: str) -> str:
    return name.lower().replace(".", "/").rpartition("/")[2]


def _type_name(field: pa.Field) -> str:
    if is_tensor(field):
        return "tensor"
    return f"list of {_value_name(field.type.value_type)}" if is_list(field.type) else _value_name(field.type)


def _value_name(kind: pa.DataType) -> str:
    return next((name for name, (_, fits) in _TYPES.items() if fits(kind)), str(kind))


def _note(field: pa.Field, label: str, images: str) -> str:
    notes: Iterable[str] = (
        "label" if field.name == label else "",
        "image paths" if images and field.name == images else "",
        shape_of(field) if is_tensor(field) else "",
    )
    return ", ".join(filter(None, notes))
