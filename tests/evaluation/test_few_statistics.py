"""Statistics of few records are those that TFDV computes on Beam."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx.components.util import examples_utils
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_artifacts

from components.evaluation import few_statistics
from components.evaluation.statistics import SpanStatisticsExecutor
from components.records import manifest
from components.records.schema import CATEGORY
from components.records.tfrecord.framing import TFRecordWriter

pytestmark = pytest.mark.slow

RECORDS = {"train": few_statistics.MOST, "eval": 40}
SCHEMA = f"""
feature {{ name: "age" type: FLOAT presence {{ min_count: 1 }} shape {{ dim {{ size: 1 }} }} }}
feature {{ name: "rooms" type: INT annotation {{ tag: "{CATEGORY}" }} }}
feature {{ name: "text" type: BYTES }}
feature {{ name: "vector" type: FLOAT }}
feature {{ name: "label" type: BYTES }}
"""


def record(random: Any, number: int) -> bytes:
    """Returns a record: numbers, a category of whole numbers, a text that is different in all, a list, a label."""
    values = {
        "rooms": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(random.integers(9))])),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[f"text {number}".encode()])),
        "vector": tf.train.Feature(float_list=tf.train.FloatList(value=random.normal(size=5))),
        "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[random.choice([b"no", b"yes"])])),
    }
    if number % 7:  # else it is missing
        values["age"] = tf.train.Feature(float_list=tf.train.FloatList(value=[random.normal(40, 10)]))
    content: bytes = tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()
    return content


def long(random: Any, number: int) -> bytes:
    """Returns a record with a category of more than 1,024 bytes, and another one for each record."""
    value = f"{number} {random.integers(9)}".encode() * 500
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    content: bytes = tf.train.Example(features=tf.train.Features(feature={"place": feature})).SerializeToString()
    return content


@pytest.fixture(scope="module", params=[record, long])
def examples(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an Examples artifact, two shards per split."""
    folder, random, shards = tmp_path_factory.mktemp("examples"), np.random.default_rng(3), []
    for split, count in RECORDS.items():
        (folder / f"Split-{split}").mkdir()
        for number in range(2):
            name = f"Split-{split}/data_tfrecord-0000{number}-of-00002.gz"
            with TFRecordWriter(folder / name, gzip=True) as file:
                file.write([[request.param(random, each)] for each in range(number, count, 2)])
            shards.append(manifest.Shard(split, name, file.records, file.size, file.checksum))
    made = manifest.Manifest("", sum(RECORDS.values()), manifest.SourceTotals(), tuple(shards), {}, 0, {}, 0, ())
    manifest.write(folder, made, ())
    return folder


def statistics(examples: Path, home: Path) -> dict[str, Any]:
    """Runs StatisticsGen; returns number of records and features of each split, by name."""
    read, schema = standard_artifacts.Examples(), standard_artifacts.Schema()
    made = standard_artifacts.ExampleStatistics()
    read.uri, schema.uri = str(examples), str(home / "schema")
    made.uri = str(home / "statistics")
    read.split_names = artifact_utils.encode_split_names(list(RECORDS))
    examples_utils.set_payload_format(read, example_gen_pb2.FORMAT_TF_EXAMPLE)
    (home / "schema").mkdir(parents=True)
    text = text_format.MessageToString(text_format.Parse(SCHEMA, schema_pb2.Schema()))
    (home / "schema" / "schema.pbtxt").write_text(text)
    SpanStatisticsExecutor().Do({"examples": [read], "schema": [schema]}, {"statistics": [made]}, {"live": ""})
    found = {}
    for split in RECORDS:
        content = (home / "statistics" / f"Split-{split}" / "FeatureStats.pb").read_bytes()
        (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets
        features = {each.path.step[0]: text_format.MessageToString(each) for each in dataset.features}
        found[split] = (dataset.num_examples, features)
    return found


def test_few_records_have_the_statistics_of_beam(
    examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts, moments, quantiles, histograms, top values and numbers of different values are equal."""
    here = statistics(examples, tmp_path / "here")
    monkeypatch.setattr(few_statistics, "MOST", 0)
    on_beam = statistics(examples, tmp_path / "beam")

    assert {split: count for split, (count, _) in here.items()} == RECORDS
    assert here == on_beam
