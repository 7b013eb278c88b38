"""The sample of a span's records."""

from pathlib import Path

import tensorflow as tf

from components.evaluation import span_sample
from components.records.manifest import Shard
from components.records.tfrecord.framing import TFRecordWriter

IMAGE = bytes(1000)


def encoded(number: int) -> bytes:
    """Returns a record with an image and a number."""
    features = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[IMAGE])),
        "x": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
    }
    content: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(
        deterministic=True
    )
    return content


def test_images_are_not_kept(tmp_path: Path) -> None:
    """Of an image only that it is there; the sample does not depend on how records are divided into shards."""
    with TFRecordWriter(tmp_path / "all") as file:
        file.write([[encoded(each)] for each in range(100)])
    with TFRecordWriter(tmp_path / "odd") as odd, TFRecordWriter(tmp_path / "even") as even:
        odd.write([[encoded(each)] for each in range(1, 100, 2)])
        even.write([[encoded(each)] for each in range(0, 100, 2)])
    whole = span_sample.take(tmp_path, [Shard("train", "all", 100, 1, "")], 10, {"x"})
    parts = span_sample.take(tmp_path, [Shard("train", each, 50, 1, "") for each in ("odd", "even")], 10, {"x"})

    assert len(whole) == 10
    assert [each.values for each in whole] == [each.values for each in parts]
    assert {each.values["image"] for each in whole} == {b""}
    assert whole[0].place == f"all record {whole[0].values['x']}"
