"""The inferred schema describes the records, and is read back from its text."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.ingest.survey import schema
from components.records.schema import id_of, tensor_of

COLUMNS = pa.schema(
    [
        ("age", pa.int64()),
        ("share", pa.float64()),
        ("ok", pa.bool_()),
        ("words", pa.list_(pa.string())),
        pa.field("pixels", pa.binary(), metadata={"dtype": "<f4", "shape": "28,28"}),
        ("class", pa.string()),
    ]
)
EXPECTED = """
feature { name: "age" type: INT presence { min_count: 1 } value_count { min: 1 max: 1 } }
feature { name: "share" type: FLOAT presence { min_count: 1 } value_count { min: 1 max: 1 } }
feature { name: "ok" type: INT presence { min_count: 1 } value_count { min: 1 max: 1 } bool_domain {} }
feature { name: "words" type: BYTES presence { min_count: 1 } }
feature {
  name: "pixels" type: BYTES presence { min_count: 1 min_fraction: 1 } shape {} image_domain {}
  annotation { tag: "dtype:<f4" tag: "shape:28,28" }
}
feature { name: "class" type: BYTES presence { min_count: 1 min_fraction: 1 } shape {} }
feature {
  name: "id" type: INT presence { min_count: 1 min_fraction: 1 } shape {}
  annotation { tag: "record id" }
}
"""


def read(path: Path) -> schema_pb2.Schema:
    """Reads a schema as TensorFlow Data Validation does."""
    return text_format.Parse(path.read_text(), schema_pb2.Schema())


def test_the_schema_is_written_as_text(tmp_path: Path) -> None:
    """Types, presence, value counts and tags."""
    schema.write(tmp_path / "schema.pbtxt", COLUMNS, "class")

    assert read(tmp_path / "schema.pbtxt") == text_format.Parse(EXPECTED, schema_pb2.Schema())


def test_a_path_becomes_an_image(tmp_path: Path) -> None:
    """Which every record has; the user's column `id` stays."""
    schema.write(tmp_path / "schema.pbtxt", pa.schema([("file", pa.string()), ("id", pa.int64())]), "", "file")
    image, users, own = read(tmp_path / "schema.pbtxt").feature

    assert (image.name, image.presence.min_fraction, image.WhichOneof("domain_info")) == (
        "image", 1.0, "image_domain",
    )  # fmt: skip
    assert (users.name, users.presence.min_fraction, own.name) == ("id", 0.0, "record_id")


def test_dtype_and_shape_of_tensors_are_read_back(tmp_path: Path) -> None:
    """Other features have none."""
    columns = pa.schema([*COLUMNS, pa.field("c", pa.binary(), metadata={"dtype": "<c8", "shape": ""})])
    schema.write(tmp_path / "schema.pbtxt", columns, "class")
    found = {feature.name: tensor_of(feature) for feature in read(tmp_path / "schema.pbtxt").feature}

    assert found == {
        **dict.fromkeys(["age", "share", "ok", "words", "class", "id"]),
        "pixels": (np.dtype("<f4"), (28, 28)),
        "c": (np.dtype("<c8"), ()),
    }


def test_the_column_of_record_ids_is_read_back() -> None:
    """It is `id` in a schema without the tag."""
    inferred = schema.infer(pa.schema([("id", pa.string())]), "")

    assert [id_of(each) for each in (inferred, schema_pb2.Schema())] == ["record_id", "id"]
