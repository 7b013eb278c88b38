"""The inferred schema, written where the user can curate it: a TensorFlow Metadata schema as text."""

from pathlib import Path

import pyarrow as pa
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components import durable

_HEADER = "# Inferred from the data; edit it and keep it: the gate compares the data with it.\n"


def infer(schema: pa.Schema, label: str) -> schema_pb2.Schema:
    """Returns the schema of records with these columns; only the label must be there in every record."""
    made = schema_pb2.Schema()
    for column in schema:
        feature = made.feature.add(name=column.name, type=_feature_type(column.type))
        feature.presence.min_count = 1
        if column.name == label:
            feature.presence.min_fraction = 1.0
        if not _is_list(column.type):
            feature.value_count.min = feature.value_count.max = 1
    return made


def write(path: Path, schema: pa.Schema, label: str) -> None:
    """Stores the inferred schema."""
    durable.write_bytes(path, (_HEADER + text_format.MessageToString(infer(schema, label))).encode())


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _feature_type(kind: pa.DataType) -> "schema_pb2.FeatureType":
    inner = kind.value_type if _is_list(kind) else kind
    if pa.types.is_floating(inner):
        return schema_pb2.FLOAT
    return schema_pb2.INT if pa.types.is_integer(inner) or pa.types.is_boolean(inner) else schema_pb2.BYTES
