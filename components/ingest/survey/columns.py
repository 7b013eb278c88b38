"""What the columns are: which one is the label, which types the user has set right, and how all that is shown.

    schema as a source infers it ─► types from the settings ─► label ─► what a person reads

A type that the user sets is read by the source itself, so a code such as 007 that was taken for a number comes back
as it stands in the file.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, count

import pyarrow as pa

from components.errors import SettingsError
from components.ingest.sources.set_types import SET_BY_USER
from components.settings.ingest import ColumnType
from components.settings.names import nearest

# In the order in which they are looked for, whatever their case. Other programs write paths: image/class/label.
LABELS = ("label", "labels", "class", "classes", "target", "targets", "y", "category", "class_label", "class_name")
_IMAGE, _IDS = "image", ("id", "record_id")
_TYPES: Mapping[ColumnType, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "bytes": pa.binary(),
}


def label_of(schema: pa.Schema, asked: str) -> str:
    """Returns the column of the label: the one asked for, else one that is called so, else none."""
    if asked:
        return known(schema, asked, "label")
    single = [field.name for field in schema if not is_list(field.type) and not is_tensor(field)]
    for wanted in LABELS:
        for called in (str.lower, _last_part):
            if found := [name for name in single if called(name) == wanted]:
                return found[0]
    return ""


def with_types(schema: pa.Schema, overrides: Mapping[str, ColumnType]) -> pa.Schema:
    """Returns the schema with the types that the user has set; of a list, the type of its values."""
    for name, kind in overrides.items():
        place = schema.get_field_index(known(schema, name, "columns"))
        field = schema.field(place)
        if is_tensor(field) and kind != "bytes":
            raise SettingsError(f"setting ingest.columns: {name!r} is a tensor of {shape_of(field)}, expected bytes")
        told = {**(field.metadata or {}), SET_BY_USER: b""}
        schema = schema.set(place, field.with_type(_retyped(field.type, _TYPES[kind])).with_metadata(told))
    return schema


def with_classes(schema: pa.Schema, label: str) -> pa.Schema:
    """Returns the schema with a label that names classes: as text, unless it is a quantity."""
    kind = schema.field(label).type
    return schema if pa.types.is_floating(kind) else with_types(schema, {label: "text"})


def known(schema: pa.Schema, name: str, setting: str) -> str:
    """Returns a column's name if there is such a column; else the setting is wrong, and the nearest name is told."""
    if name not in schema.names:
        raise SettingsError(f"setting ingest.{setting}: no column {name!r} in the data; {nearest(name, schema.names)}")
    return name


def record_schema(schema: pa.Schema, images: str = "") -> pa.Schema:
    """Returns the columns of records: images where the rows have paths, and the record's id."""
    if images:
        schema = schema.set(schema.get_field_index(images), pa.field(image_name(schema, images), pa.binary()))
    return schema.append(pa.field(id_name(schema), pa.int64()))


def image_name(schema: pa.Schema, images: str) -> str:
    """Returns what the images are called in records that have paths in the column `images`."""
    return images if _IMAGE in schema.names else _IMAGE


def id_name(schema: pa.Schema) -> str:
    """Returns what our own column of record ids is called: a column of the user's is never replaced."""
    names = chain(_IDS, (f"{_IDS[-1]}_{number}" for number in count(2)))
    return next(name for name in names if name not in schema.names)


def shown(schema: pa.Schema, label: str, images: str = "") -> list[tuple[str, str, str]]:
    """Returns name, type and a note for every column, for people."""
    return [(field.name, _spoken(field), _note(field, label, images)) for field in schema]


def is_list(kind: pa.DataType) -> bool:
    """Whether a column has several values in a row."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def is_tensor(field: pa.Field) -> bool:
    """Whether a column is the raw bytes of a tensor; its dtype and shape are in the metadata of the field."""
    return b"dtype" in (field.metadata or {})


def shape_of(field: pa.Field) -> str:
    """Returns dtype and shape of a tensor as people read them: "float32 28 x 28"."""
    import numpy as np

    shape = field.metadata.get(b"shape", b"").decode().replace(",", " x ")
    return f"{np.dtype(field.metadata[b'dtype'].decode()).name} {shape}".strip()


def _last_part(name: str) -> str:
    return name.lower().replace(".", "/").rpartition("/")[2]


def _retyped(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    return pa.list_(wanted) if is_list(kind) else wanted


def _spoken(field: pa.Field) -> str:
    if is_tensor(field):
        return "tensor"
    return f"list of {_word(field.type.value_type)}" if is_list(field.type) else _word(field.type)


def _word(kind: pa.DataType) -> str:
    return next((word for word, fits in _WORDS if fits(kind)), str(kind))


_WORDS = (
    ("int", pa.types.is_integer),
    ("float", pa.types.is_floating),
    ("bool", pa.types.is_boolean),
    ("text", pa.types.is_string),
    ("text", pa.types.is_large_string),
    ("bytes", pa.types.is_binary),
    ("bytes", pa.types.is_large_binary),
)


def _note(field: pa.Field, label: str, images: str) -> str:
    notes: Iterable[str] = (
        "label" if field.name == label else "",
        "paths of images" if images and field.name == images else "",
        shape_of(field) if is_tensor(field) else "",
    )
    return ", ".join(filter(None, notes))
