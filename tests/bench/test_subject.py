"""The pipeline up to each stage, the tutorial way, and images stored anew."""

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
from pipelines.bench import restored, subject, tutorial
from pipelines.bench.subject import STAGES, Subject

RECORDS, BATCH, SIZE = 40, 8, 32


def subject_of(artifact: Path, **settings: Any) -> Subject:
    """The artifact as the image task reads it."""
    return subject.of(tasks.get("image"), artifact, Input(batch_size=BATCH, image_size=SIZE, **settings), seed=3)


class TestStages:
    """Each stage does what the one before it did, and more."""

    @pytest.mark.parametrize("stage", STAGES[:-1])
    def test_a_stage_counts_its_records(self, artifact: Path, stage: str) -> None:
        """Batch after batch, without end."""
        counts = [int(part[0]) for part in itertools.islice(subject_of(artifact).until(stage), 12)]

        assert counts == [BATCH] * 12

    def test_what_a_stage_makes_is_made(self, artifact: Path) -> None:
        """A little of every tensor is handed over: the length of what is parsed, a pixel of what is decoded."""
        read, parse, decode = (next(iter(subject_of(artifact).until(stage))) for stage in STAGES[:3])

        assert [part.dtype for part in read[1:]] == [tf.int32]
        assert [part.dtype for part in parse[1:]] == [tf.int64, tf.int32, tf.int32]
        assert [part.dtype for part in decode[1:]] == [tf.uint8]

    def test_the_last_one_is_what_training_reads(self, artifact: Path) -> None:
        """Images and numbers of classes."""
        values, labels = next(iter(subject_of(artifact).until("batch")))

        assert values["image"].shape == (BATCH, SIZE, SIZE, 3)
        assert set(labels.numpy()) <= {0, 1}


class TestTutorial:
    """As it is found."""

    def test_it_reads_the_same_shards(self, artifact: Path) -> None:
        """Floats of the same size, and the labels as they are stored."""
        values, labels = next(iter(tutorial.batches(subject_of(artifact))))

        assert (values["image"].shape, values["image"].dtype) == ((BATCH, SIZE, SIZE, 3), tf.float32)
        assert set(labels.numpy()) == {b"cat", b"dog"}


class TestRestored:
    """What storing smaller would give."""

    @pytest.mark.parametrize("store", ["jpeg", "raw"])
    def test_records_are_read_as_before(self, artifact: Path, tmp_path: Path, store: str) -> None:
        """Every record is there, with a smaller image, and the account says so."""
        restored.write(artifact, tmp_path / "small", "image", Ingest(store=store, store_side=64))
        books = manifest.read(tmp_path / "small")
        records = tf.data.TFRecordDataset([str(tmp_path / "small" / shard.name) for shard in books.shards])
        examples = [tf.train.Example.FromString(record.numpy()).features.feature for record in records]
        contents = [io.BytesIO(example["image"].bytes_list.value[0]) for example in examples]
        values, _ = next(iter(subject_of(tmp_path / "small").training()))

        assert books.records["train"] == len(examples) == RECORDS
        assert {Image.open(content).size for content in contents} == {(85, 64)}
        assert values["image"].shape == (BATCH, SIZE, SIZE, 3)

    def test_small_images_stay_as_they_are(self, artifact: Path, tmp_path: Path) -> None:
        """Nothing is drawn larger, or twice."""
        restored.write(artifact, tmp_path / "same", "image", Ingest(store="jpeg", store_side=300))
        old, new = (manifest.read(each) for each in (artifact, tmp_path / "same"))

        assert sum(shard.bytes for shard in new.shards) == sum(shard.bytes for shard in old.shards)
