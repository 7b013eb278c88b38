"""Why training waits: stages and remedies measured on the records that it reads."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.features.image import ImageFeature
from components.features.tensor import TensorFeature
from components.input_pipeline import Reader, RecordFile, probe
from components.settings.input import Augmentation, Input

RECORDS = 48


def jpeg(side: int) -> bytes:
    """A image of noise."""
    file = io.BytesIO()
    pixels = np.random.default_rng(1).integers(0, 256, (side, side, 3), "uint8")
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def shards(home: Path, content: bytes) -> list[RecordFile]:
    """One shard, all of its records alike."""
    path = home / "shard"
    with tf.io.TFRecordWriter(str(path)) as file:
        for number in range(RECORDS):
            example = tf.train.Example()
            example.features.feature["value"].bytes_list.value.append(content)
            example.features.feature["label"].int64_list.value.append(number)
            file.write(example.SerializeToString())
    return [RecordFile(path, RECORDS, path.stat().st_size)]


def images(**settings: object) -> Reader:
    """How images are read."""
    given = Input.model_validate({"batch_size": 16, "image_size": 64, **settings})
    return Reader({"value": ImageFeature(64)}, "label", tf.identity, given, 1, label_type="int64")


class TestExplain:
    """The sentence."""

    def test_large_images_are_decoded_too_slowly(self, tmp_path: Path) -> None:
        """What they gain stored smaller was measured, and so was what cores would have to do."""
        said = probe.explain(images(), shards(tmp_path, jpeg(1000)), 0.5, rate=2000, seconds=0.2)

        wanted = r"input-bound 50 %: decoding is the limit; .*store at 256 px \(\d+\.\dx\).*"
        assert re.fullmatch(wanted, said), said
        assert "use " in said

    def test_small_ones_are_not_stored_smaller(self, tmp_path: Path) -> None:
        """They are no larger than that."""
        said = probe.explain(images(), shards(tmp_path, jpeg(100)), 0.5, rate=2000, seconds=0.1)

        assert said.startswith("input-bound 50 %: ")
        assert "store at" not in said

    def test_who_does_not_wait_is_told_so(self) -> None:
        """And nothing is measured."""
        assert probe.explain(images(), [], 0.01, rate=10) == "not input-bound: the device waits 1 % of the time"

    def test_arrays_are_read(self, tmp_path: Path) -> None:
        """Every modality has the same stages."""
        reader = Reader({"value": TensorFeature((400,), "uint8")}, "label", tf.identity, Input(), 1, label_type="int64")
        stages = probe.costs(reader, shards(tmp_path, bytes(400)), seconds=0.1)

        assert [stage.name for stage in stages] == ["read", "parse", "decode", "augment"]
        assert stages[0].cpu_us > 0


def test_without_augmentation_there_is_no_such_stage(tmp_path: Path) -> None:
    """It is not done, so it costs nothing."""
    stages = probe.costs(images(augment=False), shards(tmp_path, jpeg(64)), seconds=0.1)

    assert [stage.name for stage in stages] == ["read", "parse", "decode"]


@pytest.mark.parametrize("crop", ["none", "random", "resized"])
def test_decoding_shows_the_same_part(crop: str) -> None:
    """All that comes after it is off; a shift is made after it as well."""
    how = Augmentation.model_validate({"crop": crop, "flip": 0.5, "hue": 0.1, "mixup": 1.0, "erase": 0.3})

    plain = {"flip": 0.5, "brightness": 0, "contrast": 0}
    assert probe.unvaried(how) == Augmentation.model_validate({"crop": crop, **plain})
    assert probe.unvaried(how.model_copy(update={"crop": "shift"})) == Augmentation.model_validate(
        {"crop": "none", **plain}
    )
