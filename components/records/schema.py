"""The inferred schema, written where the user can curate it: a TensorFlow Metadata schema as text.

What the wire format does not tell is kept in tags of a feature: dtype and shape of raw tensors, and which column is
the record's id. They survive as text, and nobody else reads them.

    annotation { tag: "dtype:<f4" tag: "shape:28,28" }
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.ingest.survey.column_kinds import meaning_of
from components.ingest.survey.columns import image_name, is_list, is_tensor, record_schema
from components.storage import durable

_HEADER = "# Inferred from the data; edit it and keep it: the gate compares the data with it.\n"
_DTYPE, _SHAPE, _ID = "dtype:", "shape:", "record id"


def infer(schema: pa.Schema, label: str, images: str = "") -> schema_pb2.Schema:
    """Returns the schema of records made of rows with these columns; only some must be there in every record."""
    columns = record_schema(schema, images)
    image, own = image_name(schema, images) if images else "", columns.names[-1]
    made = schema_pb2.Schema()
    for column in columns:
        feature = made.feature.add(name=column.name, type=_feature_type(column.type))
        feature.presence.min_count = 1
        if column.name in {label, image, own} or is_tensor(column):
            feature.presence.min_fraction = 1.0
            feature.shape.SetInParent()  # one value in every record: readers then make it dense
        elif not is_list(column.type):
            feature.value_count.min = feature.value_count.max = 1
        if column.name == label and pa.types.is_floating(column.type):
            feature.float_domain.disallow_nan = feature.float_domain.disallow_inf = True
        if pa.types.is_boolean(column.type):
            feature.bool_domain.SetInParent()
        if is_tensor(column) or column.name == image:
            # The only mark by which statistics take a column for bytes, and not for a category a record.
            feature.image_domain.SetInParent()
        if tags := _tags(column, own):
            feature.annotation.tag.extend(tags)
    return made


def write(path: Path, schema: pa.Schema, label: str, images: str = "") -> None:
    """Stores the inferred schema."""
    durable.write_bytes(path, as_text(schema, label, images))


def as_text(schema: pa.Schema, label: str, images: str = "") -> bytes:
    """Returns the inferred schema as people edit it."""
    return (_HEADER + text_format.MessageToString(infer(schema, label, images))).encode()


def tensor_of(feature: schema_pb2.Feature) -> tuple[npt.DTypeLike, tuple[int, ...]] | None:
    """Returns dtype and shape of a feature of raw bytes; None if it is not one."""
    dtype, shape = (_tag(feature, head) for head in (_DTYPE, _SHAPE))
    return None if dtype is None else (np.dtype(dtype), tuple(map(int, filter(None, (shape or "").split(",")))))


def id_of(schema: schema_pb2.Schema) -> str:
    """Returns the column of the records' ids: "id", unless the user's data had a column of this name."""
    return next((feature.name for feature in schema.feature if _ID in feature.annotation.tag), "id")


def _tags(column: pa.Field, own: str) -> list[str]:
    if column.name == own:
        return [_ID]
    known = list(filter(None, [meaning_of(column)]))
    if not is_tensor(column):
        return known
    return [_DTYPE + column.metadata[b"dtype"].decode(), _SHAPE + column.metadata.get(b"shape", b"").decode(), *known]


def _tag(feature: schema_pb2.Feature, head: str) -> str | None:
    return next((tag[len(head) :] for tag in feature.annotation.tag if tag.startswith(head)), None)


def _feature_type(kind: pa.DataType) -> "schema_pb2.FeatureType":
    inner = kind.value_type if is_list(kind) else kind
    if pa.types.is_floating(inner):
        return schema_pb2.FLOAT
    return schema_pb2.INT if pa.types.is_integer(inner) or pa.types.is_boolean(inner) else schema_pb2.BYTES
