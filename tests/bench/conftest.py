"""A small Examples artifact: images of two classes, written with TensorFlow."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.records import checksum, manifest

CLASSES = ("cat", "dog")
RECORDS, SHARDS, WIDTH, HEIGHT = 40, 2, 400, 300


def _record(number: int) -> bytes:
    random = np.random.default_rng(number)
    coarse = tf.constant(random.integers(0, 256, (HEIGHT // 20, WIDTH // 20, 3)), tf.float32)
    pixels = tf.cast(tf.image.resize(coarse, (HEIGHT, WIDTH)), tf.uint8)
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_jpeg(pixels).numpy()])),
        "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[CLASSES[number % 2].encode()])),
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)


def _shard(artifact: Path, index: int) -> manifest.Shard:
    name = f"Split-train/data_tfrecord-{index:05d}-of-{SHARDS:05d}"
    numbers = range(index, RECORDS, SHARDS)
    with tf.io.TFRecordWriter(str(artifact / name)) as writer:
        for number in numbers:
            writer.write(_record(number))
    content = (artifact / name).read_bytes()
    return manifest.Shard("train", name, len(numbers), len(content), checksum.of_bytes(content))


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the artifact."""
    folder = tmp_path_factory.mktemp("artifact")
    (folder / "Split-train").mkdir()
    written = manifest.Manifest(
        data_digest="",
        found=RECORDS,
        sources=manifest.SourceTotals(),
        shards=tuple(_shard(folder, index) for index in range(SHARDS)),
        classes={"train": dict.fromkeys(CLASSES, RECORDS // 2), "eval": {}, "test": {}},
        quarantined=0,
        changed={},
        median_side=HEIGHT,
        warnings=(),
    )
    manifest.write(folder, written, ())
    return folder
