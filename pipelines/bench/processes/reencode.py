"""A small artifact whose images are stored smaller, to measure what `ingest.store` would gain.

the first training records ─► images re-encoded as ingest would store them ─► shards and a manifest
"""

import io
from dataclasses import replace
from pathlib import Path

import tensorflow as tf
from PIL import Image

from components.input_pipeline import artifacts
from components.records import image_format, manifest
from components.records.tfrecord.framing import TFRecordWriter
from components.settings.ingest import Ingest

_RECORDS = 512  # enough for a second of reading, epoch after epoch
_SHARDS = 8


def write(artifact: Path, out: Path, column: str, settings: Ingest) -> None:
    """Writes some training records of an artifact to `out`, with the images of `column` re-encoded."""
    original = manifest.read(artifact)
    files = artifacts.shards(artifact, "train")
    stored = tf.data.TFRecordDataset([str(file.path) for file in files], files[0].compression).take(_RECORDS)
    records = [_reencoded(record, column, settings) for record in stored.as_numpy_iterator()]
    (out / "Split-train").mkdir(parents=True)
    shards = [_shard(out, number, records[number::_SHARDS]) for number in range(min(_SHARDS, len(records)))]
    manifest.write(out, replace(original, shards=tuple(shards), sources=manifest.SourceTotals()), ())


def _reencoded(record: bytes, column: str, settings: Ingest) -> bytes:
    """Returns the record with its image at the stored size; an image that is not larger is unchanged."""
    example = tf.train.Example.FromString(record)
    values = example.features.feature[column].bytes_list.value
    raw = settings.store == "raw"
    with Image.open(io.BytesIO(values[0])) as image:
        if min(image.size) <= settings.store_side and not raw:
            return record
        small = image_format.resize(image.convert("RGB"), settings.store_side)
    values[0] = image_format.as_ppm(small) if raw else image_format.as_jpeg(small, settings.store_quality)
    return example.SerializeToString(deterministic=True)


def _shard(out: Path, number: int, records: list[bytes]) -> manifest.Shard:
    name = f"Split-train/data_tfrecord-{number:05d}-of-{_SHARDS:05d}"
    with TFRecordWriter(out / name) as writer:
        writer.write([record] for record in records)
    return manifest.Shard("train", name, writer.records, writer.size, writer.checksum)
