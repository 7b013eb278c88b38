"""Why training waits: stages and remedies measured on its own records."""

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

pytestmark = pytest.mark.slow

RECORDS = 48


def jpeg(side: int) -> bytes:
    """Returns an image of noise."""
    file = io.BytesIO()
    pixels = np.random.default_rng(1).integers(0, 256, (side, side, 3), "uint8")
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def shards(home: Path, content: bytes) -> list[RecordFile]:
    """Returns one shard of equal records."""
    path = home / "shard"
    with tf.io.TFRecordWriter(str(path)) as file:
        for number in range(RECORDS):
            example = tf.train.Example()
            example.features.feature["value"].bytes_list.value.append(content)
            example.features.feature["label"].int64_list.value.append(number)
            file.write(example.SerializeToString())
    return [RecordFile(path, RECORDS, path.stat().st_size)]


def images(**settings: object) -> Reader:
    """Returns a reader of images."""
    given = Input.model_validate({"batch_size": 16, "image_size": 64, **settings})
    return Reader({"value": ImageFeature(64)}, "label", tf.identity, given, 1, label_type="int64")


class TestExplain:
    """The sentence."""

    @pytest.mark.slow
    def test_large_images_should_be_stored_smaller(self, tmp_path: Path) -> None:
        """The gain of storing them smaller is measured, and so is the number of cores needed."""
        said = probe.explain(images(), shards(tmp_path, jpeg(640)), 0.5, rate=2000, seconds=0.1)

        wanted = r"input-bound 50 %: decoding is the limit; .*store at 256 px \(\d+\.\dx\).*"
        assert re.fullmatch(wanted, said), said

    @pytest.mark.slow
    def test_small_images_need_not_be_stored_smaller(self, tmp_path: Path) -> None:
        """They are not larger than that."""
        said = probe.explain(images(), shards(tmp_path, jpeg(100)), 0.5, rate=2000, seconds=0.1)

        assert said.startswith("input-bound 50 %: ")
        assert "store at" not in said

    def test_without_waiting_nothing_is_measured(self) -> None:
        """There is nothing to explain."""
        assert probe.explain(images(), [], 0.01, rate=10) == "not input-bound: the device waits 1 % of the time"

    def test_arrays_have_the_same_stages(self, tmp_path: Path) -> None:
        """As every modality."""
        reader = Reader(
            {"value": TensorFeature((400,), "uint8")}, "label", tf.identity, Input(batch_size=64), 1, label_type="int64"
        )
        stages = probe.costs(reader, shards(tmp_path, bytes(400)), seconds=0.1)

        assert [stage.name for stage in stages] == ["read", "parse", "decode", "augment"]
        assert stages[0].cpu_us > 0


def test_without_augmentation_there_is_no_stage_for_it(tmp_path: Path) -> None:
    """It costs nothing."""
    stages = probe.costs(images(augment=False), shards(tmp_path, jpeg(64)), seconds=0.1)

    assert [stage.name for stage in stages] == ["read", "parse", "decode"]


@pytest.mark.parametrize("crop", ["none", "random", "resized"])
def test_decoding_includes_the_crop(crop: str) -> None:
    """All other augmentation is off; a shift is not part of decoding either."""
    how = Augmentation.model_validate({"crop": crop, "flip": 0.5, "hue": 0.1, "mixup": 1.0, "erase": 0.3})

    plain = {"flip": 0.5, "brightness": 0, "contrast": 0}
    assert probe.only_crop(how) == Augmentation.model_validate({"crop": crop, **plain})
    assert probe.only_crop(how.model_copy(update={"crop": "shift"})) == Augmentation.model_validate(
        {"crop": "none", **plain}
    )
