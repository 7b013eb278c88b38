"""What storing images smaller would gain, tried on some of the user's own: records drawn anew into a folder aside.

some shards' records ─► as ingest would store them (`ingest.store`) ─► shards with an account, as Ingest writes them
"""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import tensorflow as tf
from PIL import Image

from components.ingest.images import storage_format
from components.records import manifest
from components.records.tfrecord import TFRecordWriter
from components.settings.ingest import Ingest

_RECORDS = 512  # enough for a second of reading, epoch after epoch
_SHARDS = 8
_SUBSAMPLING = "4:2:0"


def write(artifact: Path, out: Path, key: str, settings: Ingest) -> None:
    """Writes some training records with their images stored anew."""
    books = manifest.read(artifact)
    drawn = [_drawn(record, key, settings) for record in _records(artifact, books)]
    (out / "Split-train").mkdir(parents=True)
    shards = [_shard(out, number, drawn[number::_SHARDS]) for number in range(min(_SHARDS, len(drawn)))]
    manifest.write(out, replace(books, shards=tuple(shards), sources=()), ())


def _records(artifact: Path, books: manifest.Manifest) -> Iterator[bytes]:
    files = [str(artifact / shard.name) for shard in books.shards_of("train") if shard.records]
    compression = "GZIP" if files[0].endswith(".gz") else ""
    for record in tf.data.TFRecordDataset(files, compression).take(_RECORDS):
        yield record.numpy()


def _drawn(record: bytes, key: str, settings: Ingest) -> bytes:
    """Returns the record with its image at the stored size; one that is no larger stays as it is."""
    example = tf.train.Example.FromString(record)
    held = example.features.feature[key].bytes_list
    with Image.open(io.BytesIO(held.value[0])) as image:
        if min(image.size) <= settings.store_side and settings.store != "raw":
            return record
        small = storage_format.resize(image.convert("RGB"), settings.store_side)
    raw = settings.store == "raw"
    held.value[0] = (
        storage_format.as_ppm(small) if raw else storage_format.as_jpeg(small, settings.store_quality, _SUBSAMPLING)
    )
    return example.SerializeToString(deterministic=True)


def _shard(out: Path, number: int, records: list[bytes]) -> manifest.Shard:
    name = f"Split-train/data_tfrecord-{number:05d}-of-{_SHARDS:05d}"
    with TFRecordWriter(out / name) as writer:
        writer.write([record] for record in records)
    return manifest.Shard("train", name, writer.records, writer.size, writer.checksum)
