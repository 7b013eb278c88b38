"""The contents of an ingested artifact: columns, label, classes, id column.

schema.pbtxt (rows) or the first record (images) ─► one feature per column
manifest.json ─────────────────────────────────────► shards, classes
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.errors import BadInput
from components.features import Feature, NotAugmented
from components.features.image import ImageFeature
from components.features.tensor import TensorFeature
from components.input_pipeline.sharding import RecordFile
from components.input_pipeline.stages import Reader
from components.records import manifest, schema
from components.settings.input import Input
from components.storage.location import Location

_SCHEMA = "schema.pbtxt"
_TYPES = {schema_pb2.INT: "int64", schema_pb2.FLOAT: "float32", schema_pb2.BYTES: "string"}
_MISSING = {"int64": 0, "float32": float("nan"), "string": ""}
_BYTES = {"int64": 8, "float32": 4, "string": 64}
_IMAGES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"P6 ")


@dataclass(frozen=True)
class ColumnFeature(NotAugmented):
    """A column without conversion: one value per record, or several."""

    dtype: str
    is_single: bool = True

    @property
    def decoded_bytes(self) -> int:
        """Memory of a value; strings are estimated."""
        return _BYTES[self.dtype]

    def spec(self) -> Any:
        """One value; a missing one is 0, NaN or an empty string."""
        kind = tf.dtypes.as_dtype(self.dtype)
        if not self.is_single:
            return tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64)
        return tf.io.FixedLenFeature([], kind, _MISSING[self.dtype])

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input."""
        return keras.Input([] if self.is_single else [None], dtype=self.dtype, name=name)


@dataclass(frozen=True)
class Description:
    """Features, label and classes of an artifact."""

    features: dict[str, Feature]
    label: str
    label_type: str
    classes: tuple[str, ...]  # names, if the label is a string

    def label_number(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns the function from labels to numbers: class names to indices, numbers unchanged."""
        if self.label_type != "string":
            return tf.identity
        numbers = tf.lookup.KeyValueTensorInitializer(list(self.classes), np.arange(len(self.classes)))
        return tf.lookup.StaticHashTable(numbers, default_value=-1).lookup


def shards(artifact: Location, split: str) -> list[RecordFile]:
    """Returns the shards of a split that have records."""
    listed = _manifest(artifact)
    found = [RecordFile(artifact / shard.name, shard.records, shard.bytes) for shard in listed.shards_of(split)]
    if not sum(file.records for file in found):
        known = ", ".join(name for name, records in listed.records.items() if records)
        raise BadInput(f"{artifact}: 0 records in split {split!r}; splits with records: {known or 'none'}")
    return [file for file in found if file.records]


def describe(artifact: Location, settings: Input, label: str | None = None) -> Description:
    """Returns one feature per column except the label and the record id; by default the label is that of the ingest."""
    listed, id_column, parsed = _manifest(artifact), record_id(artifact), _schema(artifact)
    columns = (
        {feature.name: _feature(feature, listed, settings) for feature in parsed.feature}
        if parsed
        else _of_record(artifact, listed, settings)
    )
    types = {key: getattr(feature, "dtype", "string") for key, feature in columns.items()}
    label = listed.label if label is None else label
    wanted = label if label in columns else ""
    features = {key: feature for key, feature in columns.items() if key not in {id_column, wanted}}
    classes = sorted({name for split in listed.classes.values() for name in split})
    return Description(features, wanted, types.get(wanted, "string"), tuple(classes))


def reader(
    artifact: Location,
    settings: Input,
    seed: int,
    label: str | None = None,
    features: Mapping[str, Feature] | None = None,
) -> Reader:
    """Returns a reader of the artifact's records; by default with all columns and the label of the ingest."""
    found = describe(artifact, settings, label)
    return Reader(
        features=features or found.features,
        label=found.label,
        label_number=found.label_number(),
        settings=settings,
        seed=seed,
        classes=len(found.classes),
        label_type=found.label_type,
        record_id=record_id(artifact),
    )


def record_id(artifact: Location) -> str:
    """Returns the column that identifies records; empty if there is none."""
    parsed, record = _schema(artifact), _first_record(artifact)
    name = schema.id_of(parsed) if parsed else "id"
    values = record.features.feature[name].int64_list.value if name in record.features.feature else ()
    return name if len(values) == 1 else ""


def _manifest(artifact: Location) -> manifest.Manifest:
    try:
        return manifest.read(artifact)
    except FileNotFoundError:
        raise BadInput(
            f"{artifact}: no {manifest.MANIFEST}; expected an artifact that `penstock ingest` or a run wrote"
        ) from None


def _schema(artifact: Location) -> schema_pb2.Schema | None:
    path = artifact / _SCHEMA
    return text_format.Parse(path.read_text(), schema_pb2.Schema()) if path.exists() else None


def _first_record(artifact: Location) -> tf.train.Example:
    for shard in _manifest(artifact).shards:
        if shard.records:
            file = RecordFile(artifact / shard.name, shard.records, shard.bytes)
            data = tf.data.TFRecordDataset(str(file.path), file.compression)
            return tf.train.Example.FromString(next(iter(data)).numpy())
    raise BadInput(f"{artifact}: 0 records; run ingest on data with at least one record")


def _feature(feature: schema_pb2.Feature, listed: manifest.Manifest, settings: Input) -> Feature:
    if (tensor := schema.tensor_of(feature)) is not None:
        dtype, shape = tensor
        return TensorFeature(shape, np.dtype(dtype).name)
    if feature.HasField("image_domain"):
        return ImageFeature.of(settings, listed)
    return ColumnFeature(_TYPES[feature.type], feature.HasField("shape") or feature.value_count.max == 1)


def _of_record(artifact: Location, listed: manifest.Manifest, settings: Input) -> dict[str, Feature]:
    """Assumes that all records have the columns of the first one."""
    found: dict[str, Feature] = {}
    for name, stored in _first_record(artifact).features.feature.items():
        kind = stored.WhichOneof("kind") or "bytes_list"
        values = getattr(stored, kind).value
        if kind == "bytes_list" and values and values[0].startswith(_IMAGES):
            found[name] = ImageFeature.of(settings, listed)
        else:
            dtype = {"int64_list": "int64", "float_list": "float32"}.get(kind, "string")
            found[name] = ColumnFeature(dtype, len(values) == 1)
    return found
