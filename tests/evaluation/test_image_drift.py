"""Samples of images, the numbers of an image, and how both sides are compared; the Gate is in test_new_span.py."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.errors import BadInput
from components.evaluation import image_drift, image_sample
from components.records import manifest
from components.records.manifest import Manifest, Shard, SourceTotals
from components.records.tfrecord.framing import TFRecordWriter
from components.settings.gate import Gate


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    """Returns the bytes of an image file."""
    file = io.BytesIO()
    image.save(file, kind, quality=95)
    return file.getvalue()


def gray(luma: int, side: int = 8) -> bytes:
    """Returns a flat image."""
    return encoded(Image.new("L", (side, side), luma))


def write(
    folder: Path, images: Sequence[bytes], name: str = "Split-train/data_tfrecord-s00001-00000-of-00001"
) -> Shard:
    """Writes a shard of the train split, and the manifest of an artifact with that shard."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    records = [
        tf.train.Example(
            features=tf.train.Features(
                feature={"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[each] if each else []))}
            )
        ).SerializeToString()
        for each in images
    ]
    with TFRecordWriter(file, gzip=name.endswith(".gz")) as written:
        written.write([[record] for record in records])
    shard = Shard("train", name, len(images), written.size, written.checksum)
    manifest.write(folder, Manifest("", 0, SourceTotals(), (shard,), {"train": {}}, 0, {}, 0, ()), ())
    return shard


class TestSpread:
    """Which records a sample has."""

    def test_few_are_all_taken(self) -> None:
        """In order."""
        assert image_sample.spread(3, 5) == [0, 1, 2]
        assert image_sample.spread(0, 5) == []

    def test_one_of_each_part(self) -> None:
        """So that records in the order of their classes are all represented, and a fixed rhythm is not followed."""
        found = image_sample.spread(1000, 100)

        assert [each // 10 for each in found] == list(range(100))
        assert len({each % 10 for each in found}) == 10


class TestNumbers:
    """Brightness, contrast, entropy and size of one image."""

    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "PPM"])
    def test_halves_of_black_and_white(self, kind: str) -> None:
        """In each format that Ingest writes: the mean, the deviation, one bit, the side."""
        pixels = np.zeros((64, 64), np.uint8)
        pixels[:, 32:] = 255
        found = image_sample.numbers_of(encoded(Image.fromarray(pixels), kind))

        assert found == pytest.approx((127.5, 127.5, 1.0, 64.0), abs=0.1)

    def test_a_flat_image(self) -> None:
        """It has neither contrast nor entropy."""
        assert image_sample.numbers_of(gray(7)) == (7.0, 0.0, 0.0, 8.0)

    def test_the_same_scene_in_another_resolution(self) -> None:
        """Only its size differs much: all are decoded at about the same size."""
        scene = Image.fromarray(np.random.default_rng(1).integers(0, 256, (8, 8, 3), np.uint8))
        small, large = (
            image_sample.numbers_of(encoded(scene.resize((side, side), Image.Resampling.BICUBIC), kind))
            for side, kind in ((128, "PNG"), (1024, "JPEG"))
        )

        assert small is not None
        assert large is not None
        assert large[:3] == pytest.approx(small[:3], rel=0.03)
        assert (small[3], large[3]) == (128, 1024)

    def test_sixteen_bits(self) -> None:
        """The upper eight, as the model sees them."""
        pixels = np.full((8, 8), 100 << 8, np.uint16)

        assert image_sample.numbers_of(encoded(Image.fromarray(pixels))) == (100.0, 0.0, 0.0, 8.0)

    def test_a_palette_is_decoded(self) -> None:
        """Not its indices."""
        image = Image.new("RGB", (200, 200), (60, 60, 60)).convert("P", palette=Image.Palette.ADAPTIVE)

        assert image_sample.numbers_of(encoded(image)) == (60.0, 0.0, 0.0, 200.0)

    @pytest.mark.parametrize("content", [b"no image", gray(7)[:40]])
    def test_what_cannot_be_decoded(self, content: bytes) -> None:
        """It has no numbers."""
        assert image_sample.numbers_of(content) is None


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_sample_is_spread_over_the_shard(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is the one that its place says, and the other ones are passed over."""
    monkeypatch.setattr(image_sample, "_MOST", 5)
    shard = write(tmp_path, [gray(each) for each in range(50)], f"shard{suffix}")
    found = image_sample.take(tmp_path, [shard], ["image"])

    assert [each.place for each in found.records] == [f"shard{suffix} record {at}" for at in image_sample.spread(50, 5)]
    assert found.values("image")["brightness"] == image_sample.spread(50, 5)
    assert found == image_sample.take(tmp_path, [shard], ["image"])


def test_large_images_are_a_smaller_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bytes per record."""
    shard = write(tmp_path, [gray(each) for each in range(50)], "shard")
    monkeypatch.setattr(image_sample, "_LEAST", 3)
    monkeypatch.setattr(image_sample, "_BYTES", 10 * shard.bytes // 50 + 1)

    assert len(image_sample.take(tmp_path, [shard], ["image"]).records) == 10


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    """A1: with the file; nothing is compared with what is not what Ingest wrote."""
    shard = write(tmp_path, [gray(each) for each in range(3)], "shard")
    content = bytearray((tmp_path / "shard").read_bytes())
    content[-20] ^= 1
    (tmp_path / "shard").write_bytes(content)

    with pytest.raises(BadInput, match=r"shard: record 2 is damaged"):
        image_sample.take(tmp_path, [shard], ["image"])


def test_a_sample_of_the_same_images_is_within_chance(tmp_path: Path) -> None:
    """Two halves of the same images; without this, every day would stop."""
    random = np.random.default_rng(5)
    sides = [[gray(int(each)) for each in random.normal(120, 30, 200).clip(0, 255)] for _ in range(2)]
    shards = [write(tmp_path / str(at), images) for at, images in enumerate(sides)]
    found = image_drift.compare(["image"], tmp_path / "1", shards[1:], tmp_path / "0", Gate(max_image_drift=0))

    assert [(each.id, each.is_finding) for each in found.measures] == [
        (f"drift:image.{name}", False) for name in ("brightness", "contrast", "entropy", "size")
    ]


def test_images_that_hardly_differ(tmp_path: Path) -> None:
    """A small change is none, though it is many times their spread; another size is."""
    write(tmp_path / "live", [gray(100)] * 100)
    shard = write(tmp_path / "new", [gray(104, side=9)] * 100)
    found = image_drift.compare(["image"], tmp_path / "new", [shard], tmp_path / "live", Gate())

    assert [each.id for each in found.measures if each.is_finding] == ["drift:image.size"]


def test_what_was_not_compared_is_noted(tmp_path: Path) -> None:
    """Images that cannot be decoded, or none; and the live model's records are a finding when they are gone."""
    write(tmp_path / "live", [gray(100), b"no image"])
    shard = write(tmp_path / "new", [b"", b""])
    found = image_drift.compare(["image"], tmp_path / "new", [shard], tmp_path / "live", Gate())
    gone = image_drift.compare(["image"], tmp_path / "new", [shard], tmp_path / "gone", Gate())

    assert found.notes == (
        "image was not compared: no images in one of the samples",
        "1 images of the live model's data could not be decoded, and were not compared",
    )
    assert [(each.id, each.is_finding) for each in gone.measures] == [("records:live", True)]


def test_tasks_without_images_read_nothing(tmp_path: Path) -> None:
    """Nor does a run without new records."""
    assert image_drift.compare([], tmp_path, [Shard("train", "gone", 1, 1, "")], tmp_path, Gate()).measures == ()
    assert image_drift.compare(["image"], tmp_path, [], tmp_path, Gate()).measures == ()
