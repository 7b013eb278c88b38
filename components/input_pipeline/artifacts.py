"""What an artifact of ingest holds, told by itself: its columns, its label, its classes, how its records are named.

schema.pbtxt (rows) or the first record (images) ─► a feature a column
manifest.json ─────────────────────────────────────► shards, classes
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.errors import BadInput
from components.features import Feature, Unvaried
from components.features.image import ImageFeature
from components.features.tensor import TensorFeature
from components.input_pipeline.sharding import RecordFile
from components.records import manifest
from components.records.schema import id_of, tensor_of
from components.settings.input import Input

_SCHEMA = "schema.pbtxt"
_TYPES = {schema_pb2.INT: "int64", schema_pb2.FLOAT: "float32", schema_pb2.BYTES: "string"}
_MISSING = {"int64": 0, "float32": float("nan"), "string": ""}
_BYTES = {"int64": 8, "float32": 4, "string": 64}
_IMAGES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"P6 ")


@dataclass(frozen=True)
class ColumnFeature(Unvaried):
    """A column as it stands: one value a record, or several."""

    dtype: str
    is_single: bool = True

    @property
    def decoded_bytes(self) -> int:
        """Strings are guessed at."""
        return _BYTES[self.dtype]

    def spec(self) -> Any:
        """A value; where there is none, nought, not a number, or nothing."""
        kind = tf.dtypes.as_dtype(self.dtype)
        if not self.is_single:
            return tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64)
        return tf.io.FixedLenFeature([], kind, _MISSING[self.dtype])

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input."""
        return keras.Input([] if self.is_single else [None], dtype=self.dtype, name=name)


@dataclass(frozen=True)
class Described:
    """What is known of the records of an artifact."""

    features: dict[str, Feature]
    label: str
    label_type: str
    classes: tuple[str, ...]  # names, where the label is a string

    def label_number(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns the numbering of labels: class names in their order, numbers as they are."""
        if self.label_type != "string":
            return tf.identity
        numbers = tf.lookup.KeyValueTensorInitializer(list(self.classes), np.arange(len(self.classes)))
        return tf.lookup.StaticHashTable(numbers, default_value=-1).lookup


def shards(artifact: Path, split: str) -> list[RecordFile]:
    """Returns the shards of a split, by the manifest."""
    books = _books(artifact)
    found = [RecordFile(artifact / each.name, each.records, each.bytes) for each in books.shards_of(split)]
    if not sum(file.records for file in found):
        known = ", ".join(name for name, records in books.records.items() if records)
        raise BadInput(f"{artifact}: 0 records in split {split!r}; splits with records: {known or 'none'}")
    return [file for file in found if file.records]


def describe(artifact: Path, settings: Input, label: str = "label") -> Described:
    """Returns a feature for every column but the label and the record's id."""
    books, own = _books(artifact), record_id(artifact)
    schema = _schema(artifact)
    columns = _of_schema(schema, books, settings) if schema else _of_record(_first_record(artifact), books, settings)
    kinds = {key: getattr(feature, "dtype", "string") for key, feature in columns.items()}
    wanted = label if label in columns else ""
    features = {key: feature for key, feature in columns.items() if key not in {own, wanted}}
    classes = sorted({name for split in books.classes.values() for name in split})
    return Described(features, wanted, kinds.get(wanted, "string"), tuple(classes))


def record_id(artifact: Path) -> str:
    """Returns the column that names records; empty if they have none."""
    schema, record = _schema(artifact), _first_record(artifact)
    name = id_of(schema) if schema else "id"
    held = record.features.feature[name].int64_list.value if name in record.features.feature else ()
    return name if len(held) == 1 else ""


def _books(artifact: Path) -> manifest.Manifest:
    try:
        return manifest.read(artifact)
    except FileNotFoundError:
        raise BadInput(
            f"{artifact}: no {manifest.MANIFEST} in it; expected what `penstock ingest` or a run wrote"
        ) from None


def _schema(artifact: Path) -> schema_pb2.Schema | None:
    path = artifact / _SCHEMA
    return text_format.Parse(path.read_text(), schema_pb2.Schema()) if path.exists() else None


def _first_record(artifact: Path) -> tf.train.Example:
    for shard in _books(artifact).shards:
        if shard.records:
            file = RecordFile(artifact / shard.name, shard.records, shard.bytes)
            data = tf.data.TFRecordDataset(str(file.path), file.compression)
            return tf.train.Example.FromString(next(iter(data)).numpy())
    raise BadInput(f"{artifact}: 0 examples in it")


def _of_schema(schema: schema_pb2.Schema, books: manifest.Manifest, settings: Input) -> dict[str, Feature]:
    return {feature.name: _feature(feature, books, settings) for feature in schema.feature}


def _feature(feature: schema_pb2.Feature, books: manifest.Manifest, settings: Input) -> Feature:
    if (tensor := tensor_of(feature)) is not None:
        dtype, shape = tensor
        return TensorFeature(shape, np.dtype(dtype).name)
    if feature.HasField("image_domain"):
        return ImageFeature.of(settings, books)
    return ColumnFeature(_TYPES[feature.type], feature.HasField("shape") or feature.value_count.max == 1)


def _of_record(record: tf.train.Example, books: manifest.Manifest, settings: Input) -> dict[str, Feature]:
    """Takes what stands in the first record for what stands in all."""
    found: dict[str, Feature] = {}
    for name, held in record.features.feature.items():
        if held.bytes_list.value and held.bytes_list.value[0].startswith(_IMAGES):
            found[name] = ImageFeature.of(settings, books)
        else:
            kind = {"int64_list": "int64", "float_list": "float32"}.get(held.WhichOneof("kind") or "", "string")
            found[name] = ColumnFeature(kind, len(getattr(held, held.WhichOneof("kind") or "bytes_list").value) == 1)
    return found
