"""Infers a TensorFlow Metadata schema from the columns of a table, and writes it as text for the user to curate."""

from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.ingest.sources.conversion import feature_type, is_list
from components.ingest.survey.columns import image_name, is_tensor, meaning_of, record_schema
from components.records.schema import DTYPE, RECORD_ID, SHAPE
from components.storage import durable

if TYPE_CHECKING:
    from components.storage.location import Location

_HEADER = "# Inferred from the data. Edit it and keep it: the gate compares the data with it.\n"


def infer(schema: pa.Schema, label: str, images: str = "") -> schema_pb2.Schema:
    """Returns the schema of the records of a table.

    Args:
        schema: columns of the table.
        label: column of the label, or empty.
        images: column with the paths of images, or empty.
    """
    columns = record_schema(schema, images)
    image, record_id = image_name(schema, images) if images else "", columns.names[-1]
    inferred = schema_pb2.Schema()
    for column in columns:
        feature = inferred.feature.add(name=column.name, type=feature_type(column.type))
        feature.presence.min_count = 1
        if column.name in {label, image, record_id} or is_tensor(column):
            feature.presence.min_fraction = 1.0
            feature.shape.SetInParent()  # one value in every record: readers then return a dense tensor
        elif not is_list(column.type):
            feature.value_count.min = feature.value_count.max = 1
        if column.name == label and pa.types.is_floating(column.type):
            feature.float_domain.disallow_nan = feature.float_domain.disallow_inf = True
        if pa.types.is_boolean(column.type):
            feature.bool_domain.SetInParent()
        if is_tensor(column) or column.name == image:
            # The only mark by which statistics treat a column as bytes, and not as one category per record.
            feature.image_domain.SetInParent()
        if tags := _tags(column, record_id):
            feature.annotation.tag.extend(tags)
    return inferred


def write(path: "Location", schema: pa.Schema, label: str, images: str = "") -> None:
    """Writes the inferred schema."""
    durable.write_bytes(path, as_text(schema, label, images))


def as_text(schema: pa.Schema, label: str, images: str = "") -> bytes:
    """Returns the inferred schema in protobuf's text format."""
    return (_HEADER + text_format.MessageToString(infer(schema, label, images))).encode()


def _tags(column: pa.Field, record_id: str) -> list[str]:
    if column.name == record_id:
        return [RECORD_ID]
    meaning = list(filter(None, [meaning_of(column)]))
    if not is_tensor(column):
        return meaning
    return [DTYPE + column.metadata[b"dtype"].decode(), SHAPE + column.metadata.get(b"shape", b"").decode(), *meaning]
