"""Encoded bytes become the same pixels eagerly and in tf.data, and their variations are small and repeatable."""

import io
from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image

from components.features.image import ImageFeature
from components.settings import Input

Pixels = NDArray[np.uint8]

SIZE = 32
MANY = 300  # variations that statistics are taken over


@dataclass(frozen=True)
class Shape:
    """What a feature takes from the data."""

    median_side: int


def noise(height: int, width: int, channels: int = 3) -> Pixels:
    """Returns a picture without any two rows alike."""
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(height * width).integers(0, 256, shape, dtype=np.uint8)


def encode(pixels: Pixels, kind: str) -> bytes:
    """Returns a picture as the bytes of a file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def halves(left: int, right: int) -> Pixels:
    """Returns a picture of two grays, side by side."""
    picture = np.full((SIZE, SIZE, 3), left, np.uint8)
    picture[:, SIZE // 2 :] = right
    return picture


def seed(record: int, epoch: int = 1) -> tf.Tensor:
    """Returns a seed as the input pipeline makes them."""
    return tf.constant([record, epoch], tf.int64)


def variations(pixels: Pixels, count: int = MANY) -> NDArray[np.float64]:
    """Returns variations of one picture, one a record, made inside tf.data."""
    feature = ImageFeature(pixels.shape[0])
    data = tf.data.Dataset.range(count).map(lambda record: feature.augment(pixels, tf.stack([record, np.int64(1)])))
    return np.stack(list(data.as_numpy_iterator())).astype(np.float64)


FILES = {
    "JPEG": encode(noise(40, 40), "JPEG"),
    "PNG": encode(noise(40, 40), "PNG"),
    "gray JPEG": encode(noise(40, 40, 1), "JPEG"),
    "gray PNG": encode(noise(40, 40, 1), "PNG"),
    "large": encode(noise(900, 1200), "JPEG"),
    "long": encode(noise(8, 200), "PNG"),
    "one pixel": encode(noise(1, 1), "PNG"),
}


class TestSize:
    """How large the model's pictures are."""

    @pytest.mark.parametrize(
        ("wanted", "median", "size"),
        [
            (64, 500, 64),
            (8, 500, 8),
            (300, 50, 300),
            (0, 48, 48),
            (0, 8, 32),
            (0, 32, 32),
            (0, 160, 160),
            (0, 900, 160),
        ],
    )
    def test_a_set_size_counts_else_the_median_within_bounds(self, wanted: int, median: int, size: int) -> None:
        """Any size can be set; one taken from the data is between 32 and 160."""
        assert ImageFeature.of(Input(image_size=wanted), Shape(median)) == ImageFeature(size)

    def test_the_model_receives_bytes(self) -> None:
        """A batch of square RGB pictures in uint8."""
        declared = ImageFeature(48).keras_input("image")

        assert (declared.shape, declared.dtype, declared.name) == ((None, 48, 48, 3), "uint8", "image")


class TestDecode:
    """What training, evaluation and serving share."""

    @pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
    def test_any_picture_has_the_models_size(self, content: bytes) -> None:
        """Square, three channels, uint8."""
        decoded = ImageFeature(SIZE).decode(content)

        assert (decoded.shape, decoded.dtype) == ((SIZE, SIZE, 3), tf.uint8)

    @pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
    def test_pixels_are_those_of_a_float_resize_rounded(self, content: bytes) -> None:
        """To the nearest, not cut, and within a byte."""
        pixels = tf.cast(tf.io.decode_image(content, channels=3), tf.float32)
        exact = tf.image.resize(pixels, [SIZE, SIZE], antialias=True).numpy()
        expected = np.clip(np.rint(exact), 0, 255).astype(np.uint8)

        np.testing.assert_array_equal(ImageFeature(SIZE).decode(content).numpy(), expected)

    @pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
    def test_tf_data_gives_the_pixels_of_eager_calls(self, content: bytes) -> None:
        """The two run through different code in TensorFlow."""
        feature = ImageFeature(SIZE)
        (inside,) = tf.data.Dataset.from_tensors(content).map(feature.decode).as_numpy_iterator()

        np.testing.assert_array_equal(inside, feature.decode(content).numpy())

    def test_a_picture_of_the_right_size_is_left_as_it_is(self) -> None:
        """No byte of a PNG is lost on its way."""
        picture = noise(SIZE, SIZE)

        np.testing.assert_array_equal(ImageFeature(SIZE).decode(encode(picture, "PNG")).numpy(), picture)

    def test_gray_becomes_three_equal_channels(self) -> None:
        """The model sees colours only."""
        picture = noise(SIZE, SIZE, 1)

        np.testing.assert_array_equal(
            ImageFeature(SIZE).decode(encode(picture, "PNG")).numpy(), np.stack([picture] * 3, axis=-1)
        )

    def test_the_shape_is_known_before_a_picture_is(self) -> None:
        """Keras builds nothing on an unknown shape."""
        data = tf.data.Dataset.from_tensors(FILES["PNG"]).map(ImageFeature(SIZE).decode)

        assert data.element_spec == tf.TensorSpec([SIZE, SIZE, 3], tf.uint8)


class TestAugment:
    """What one epoch does to a picture."""

    @pytest.mark.parametrize("size", [2, 7, SIZE, 160])
    def test_shape_and_type_stay(self, size: int) -> None:
        """For any size that a model may have."""
        varied = ImageFeature(size).augment(tf.constant(noise(size, size)), seed(1))

        assert (varied.shape, varied.dtype) == ((size, size, 3), tf.uint8)

    def test_one_seed_gives_the_same_pixels(self) -> None:
        """Nothing is kept from one call to the next."""
        feature, picture = ImageFeature(SIZE), tf.constant(noise(SIZE, SIZE))
        tf.random.set_seed(1)
        first = feature.augment(picture, seed(7))
        tf.random.set_seed(2)

        np.testing.assert_array_equal(feature.augment(picture, seed(7)).numpy(), first.numpy())

    @pytest.mark.parametrize("other", [(8, 1), (7, 2), (1, 7)])
    def test_another_record_or_epoch_gives_other_pixels(self, other: tuple[int, int]) -> None:
        """Both halves of the seed count."""
        feature, picture = ImageFeature(SIZE), tf.constant(noise(SIZE, SIZE))
        varied = feature.augment(picture, seed(7, 1)).numpy()

        assert (feature.augment(picture, seed(*other)).numpy() != varied).any()

    def test_tf_data_gives_the_pixels_of_eager_calls(self) -> None:
        """The two run through different code in TensorFlow."""
        picture = noise(SIZE, SIZE)
        eager = [ImageFeature(SIZE).augment(tf.constant(picture), seed(record)).numpy() for record in range(20)]

        np.testing.assert_array_equal(variations(picture, 20), np.stack(eager))

    def test_brightness_moves_by_a_tenth_either_way(self) -> None:
        """Evenly between a tenth darker and a tenth lighter; a flat picture shows nothing else."""
        change = variations(np.full((SIZE, SIZE, 3), 128, np.uint8)).mean(axis=(1, 2, 3)) - 128

        assert -26 <= change.min() < -22
        assert 22 < change.max() <= 26
        assert abs(change.mean()) < 3
        assert change.std() == pytest.approx(25.5 / 3**0.5, rel=0.1)

    def test_contrast_changes_by_a_tenth_either_way(self) -> None:
        """The distance of two grays, evenly between 0.9 and 1.1 of what it was."""
        varied = variations(halves(64, 192))
        ratio = (varied.max(axis=(1, 2, 3)) - varied.min(axis=(1, 2, 3))) / 128

        assert 0.88 < ratio.min() < 0.92
        assert 1.08 < ratio.max() < 1.12
        assert ratio.mean() == pytest.approx(1, abs=0.02)

    def test_brightness_and_contrast_are_drawn_apart(self) -> None:
        """A lighter picture is not always the one with more contrast."""
        brightness = variations(np.full((SIZE, SIZE, 3), 128, np.uint8)).mean(axis=(1, 2, 3))
        varied = variations(halves(64, 192))
        contrast = varied.max(axis=(1, 2, 3)) - varied.min(axis=(1, 2, 3))

        assert abs(np.corrcoef(brightness, contrast)[0, 1]) < 0.3

    def test_the_shift_is_up_to_an_eighth_in_every_direction(self) -> None:
        """A dot in the middle comes out anywhere within four pixels of it, across and down apart."""
        picture = np.zeros((SIZE, SIZE, 3), np.uint8)
        picture[16, 16] = 255
        place = variations(picture)[..., 0].reshape(MANY, -1).argmax(axis=1)
        down, across = place // SIZE - 16, place % SIZE - 16

        assert (set(down), set(across)) == (set(range(-4, 5)), set(range(-4, 5)))
        assert abs(np.corrcoef(down, across)[0, 1]) < 0.3

    def test_nothing_is_mirrored(self) -> None:
        """What a person reads means something else in a mirror."""
        varied = variations(halves(64, 192))

        assert (varied[:, :, 0].mean(axis=(1, 2)) < varied[:, :, -1].mean(axis=(1, 2))).all()
