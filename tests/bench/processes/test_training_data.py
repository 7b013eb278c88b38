"""The pipeline up to each stage, the tutorial code, and re-encoded images."""

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from PIL import Image

from components import tasks
from components.records import manifest
from components.settings.ingest import Ingest
from components.settings.input import Input
from pipelines.bench.processes import reencode, training_data, tutorial
from pipelines.bench.processes.training_data import TrainingData

RECORDS, BATCH, SIZE = 40, 8, 32
pytestmark = [pytest.mark.slow, pytest.mark.all]  # each test builds a tf.data graph


def load(artifact: Path) -> TrainingData:
    """The artifact as the image task reads it."""
    return training_data.load(tasks.get("image"), artifact, Input(batch_size=BATCH, image_size=SIZE), seed=3)


class TestStages:
    """Each stage does what the stage before it does, and more."""

    @pytest.mark.parametrize(
        ("stage", "dtypes"),
        [("read", [tf.int32]), ("parse", [tf.int64, tf.int32, tf.int32]), ("decode", [tf.uint8]), ("augment", None)],
    )
    def test_counts_and_a_little_of_every_tensor(self, artifact: Path, stage: str, dtypes: Any) -> None:
        """Endless counts of records, with lengths of what was parsed or a pixel of what was decoded."""
        batches = list(itertools.islice(load(artifact).until(stage), 12))

        assert [int(batch[0]) for batch in batches] == [BATCH] * 12
        assert dtypes is None or [part.dtype for part in batches[0][1:]] == dtypes

    def test_the_last_stage_is_training(self, artifact: Path) -> None:
        """Images and class indices."""
        values, labels = next(iter(load(artifact).until("batch")))

        assert values["image"].shape == (BATCH, SIZE, SIZE, 3)
        assert set(labels.numpy()) <= {0, 1}


def test_tutorial_reads_the_same_shards(artifact: Path) -> None:
    """Float images of the same size, and labels as they are stored."""
    values, labels = next(iter(tutorial.batches(load(artifact))))

    assert (values["image"].shape, values["image"].dtype) == ((BATCH, SIZE, SIZE, 3), tf.float32)
    assert set(labels.numpy()) == {b"cat", b"dog"}


class TestReencode:
    """A copy of the artifact with smaller images."""

    @pytest.mark.parametrize("store", ["jpeg", "raw"])
    def test_every_record_has_a_smaller_image(self, artifact: Path, tmp_path: Path, store: str) -> None:
        """The copy is a readable artifact with the same number of records."""
        reencode.write(artifact, tmp_path / "small", "image", Ingest(store=store, store_side=64))
        written = manifest.read(tmp_path / "small")
        records = tf.data.TFRecordDataset([str(tmp_path / "small" / shard.name) for shard in written.shards])
        examples = [tf.train.Example.FromString(record.numpy()).features.feature for record in records]
        contents = [io.BytesIO(example["image"].bytes_list.value[0]) for example in examples]
        values, _ = next(iter(load(tmp_path / "small").until("batch")))

        assert written.records["train"] == len(examples) == RECORDS
        assert {Image.open(content).size for content in contents} == {(85, 64)}
        assert values["image"].shape == (BATCH, SIZE, SIZE, 3)

    def test_small_images_are_not_encoded_again(self, artifact: Path, tmp_path: Path) -> None:
        """An image that is not larger than the stored size keeps its bytes."""
        reencode.write(artifact, tmp_path / "same", "image", Ingest(store="jpeg", store_side=300))
        old, new = (manifest.read(each) for each in (artifact, tmp_path / "same"))

        assert sum(shard.bytes for shard in new.shards) == sum(shard.bytes for shard in old.shards)
