"""Crop boxes are inside their images and uniformly distributed; a shift fills the border with the mirrored image."""

from typing import Any, Literal

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from components.features import crops
from components.settings.input import Augmentation

MANY = 4000  # boxes for statistics
LEAST, MOST = 0.0, 1 - 2**-24  # of random numbers
SIZE = 16
SHAPES = [[1, 1], [7, 300], [300, 7], [16, 16], [17, 15], [375, 500], [65_500, 65_500]]


def draw(count: int = MANY) -> NDArray[np.float32]:
    """Returns numbers in [0, 1), four per box."""
    return np.random.default_rng(1).random((count, crops.NUMBERS), dtype=np.float32)


def boxes(shapes: Any, drawn: Any, fit: str = "stretch", **how: Any) -> NDArray[np.int32]:
    """Returns the boxes for a model of 16 pixels."""
    found: NDArray[np.int32] = crops.boxes(
        tf.constant(shapes, tf.int32), tf.constant(drawn, tf.float32), SIZE, fit, Augmentation(**how)
    ).numpy()
    return found


def many(height: int, width: int, **how: Any) -> NDArray[np.int32]:
    """Returns many boxes for images of one size."""
    return boxes([[height, width]] * MANY, draw(), **how)


class TestWhole:
    """Crops without randomness."""

    @pytest.mark.parametrize("crop", ["none", "shift"])
    def test_stretch_takes_the_whole_image(self, crop: str) -> None:
        """Whatever the random numbers."""
        found = boxes([[30, 40], [1, 1], [500, 375]], draw(3), crop=crop)

        assert found.tolist() == [[0, 0, 30, 40], [0, 0, 1, 1], [0, 0, 500, 375]]

    @pytest.mark.parametrize("crop", ["none", "shift"])
    def test_center_takes_the_largest_square(self, crop: str) -> None:
        """In the middle; an odd pixel is cut off at the end."""
        found = boxes([[30, 40], [41, 30], [7, 7], [1, 300]], draw(4), "center", crop=crop)

        assert found.tolist() == [[0, 5, 30, 30], [5, 0, 30, 30], [0, 0, 7, 7], [0, 149, 1, 1]]


class TestRandom:
    """A part of the model's size."""

    def test_its_sides_are_the_models_or_those_of_a_smaller_image(self) -> None:
        """An image that is large enough is not enlarged."""
        found = boxes(SHAPES, draw(len(SHAPES)), crop="random")

        assert found[:, 2:].tolist() == np.minimum(SHAPES, SIZE).tolist()

    def test_the_smallest_number_is_the_first_position_and_the_largest_the_last(self) -> None:
        """Even where a float32 cannot represent every pixel."""
        shapes = [[20, 30], [16, 16], [65_500, 65_500]]
        first, last = (boxes(shapes, np.full((3, 4), drawn), crop="random")[:, :2] for drawn in (LEAST, MOST))

        assert (first.tolist(), last.tolist()) == ([[0, 0]] * 3, (np.array(shapes) - SIZE).tolist())

    def test_every_position_is_equally_likely(self) -> None:
        """Five rows and nine columns: 45 positions, 89 times each, within five standard deviations."""
        found = many(SIZE + 4, SIZE + 8, crop="random")

        places, counts = np.unique(found[:, :2], axis=0, return_counts=True)
        assert places.tolist() == [[top, left] for top in range(5) for left in range(9)]
        assert np.abs(counts - MANY / 45).max() < 5 * (MANY / 45) ** 0.5


class TestResized:
    """A part of any size, slightly stretched."""

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    @pytest.mark.parametrize("ratio", [1.0, 4 / 3, 10.0])
    def test_a_box_is_not_empty_and_inside_the_image(self, shape: list[int], ratio: float) -> None:
        """For any image and any numbers, the extremes included."""
        drawn = np.concatenate([draw(), np.array(np.meshgrid(*[[LEAST, MOST]] * 4)).reshape(4, -1).T])

        found = boxes([shape] * len(drawn), drawn, crop="resized", crop_area=0.01, crop_ratio=ratio)

        assert found[:, 2:].min() >= 1
        assert found[:, :2].min() >= 0
        assert (found[:, :2] + found[:, 2:] <= shape).all()

    def test_the_area_is_uniform(self) -> None:
        """Between crop_area and the whole image; for a square image few boxes are cut."""
        found = many(1000, 1000, crop="resized", crop_area=0.2, crop_ratio=1)

        area = found[:, 2] * found[:, 3] / 1e6
        assert 0.198 < area.min() < 0.21
        assert 0.99 < area.max() <= 1
        assert area.mean() == pytest.approx(0.6, abs=0.02)
        assert area.std() == pytest.approx(0.8 / 12**0.5, rel=0.05)

    def test_the_aspect_ratio_is_log_uniform(self) -> None:
        """As often wide as high; with small areas, because long sides of large ones are cut."""
        found = many(1000, 1000, crop="resized", crop_area=0.08, crop_ratio=4 / 3)

        small = found[found[:, 2] * found[:, 3] < 0.5e6]
        ratio = np.log(small[:, 3] / small[:, 2]) / np.log(4 / 3)
        assert -1.02 < ratio.min() < -0.98
        assert 0.98 < ratio.max() < 1.02
        assert ratio.mean() == pytest.approx(0, abs=0.05)
        assert ratio.std() == pytest.approx(1 / 3**0.5, rel=0.05)

    def test_the_position_is_uniform(self) -> None:
        """Independently in both directions."""
        found = many(1000, 1000, crop="resized", crop_area=0.1)

        room = 1000 - found[:, 2:]
        places = (found[:, :2] / np.maximum(room, 1))[(room > 100).all(axis=1)]
        assert places.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.03)
        assert places.std(axis=0) == pytest.approx([12**-0.5] * 2, rel=0.05)
        assert abs(np.corrcoef(places.T)[0, 1]) < 0.06

    def test_the_whole_area_is_the_whole_image(self) -> None:
        """There is nothing random."""
        found = many(30, 30, crop="resized", crop_area=1, crop_ratio=1)

        assert np.unique(found, axis=0).tolist() == [[0, 0, 30, 30]]


@pytest.mark.parametrize("crop", ["none", "shift", "random", "resized"])
@pytest.mark.parametrize("fit", ["stretch", "center"])
def test_tf_data_gives_the_boxes_of_eager_calls(crop: Literal["none"], fit: str) -> None:
    """TensorFlow runs different code for them."""
    how, drawn, count = Augmentation(crop=crop), draw(len(SHAPES)), len(SHAPES)
    data = tf.data.Dataset.from_tensor_slices((tf.constant(SHAPES, tf.int32), drawn)).batch(count)
    data = data.map(lambda shapes, numbers: crops.boxes(shapes, numbers, SIZE, fit, how))

    (inside,) = data.as_numpy_iterator()

    np.testing.assert_array_equal(inside, boxes(SHAPES, drawn, fit, crop=crop))


class TestShifted:
    """A shifted image."""

    @pytest.mark.parametrize("size", [2, 3, 7, 8, 16, 40])
    @pytest.mark.parametrize("down", [LEAST, 0.3, 0.5, 0.7, MOST])
    @pytest.mark.parametrize("across", [LEAST, 0.5, MOST])
    def test_it_is_a_window_into_the_mirrored_image(self, size: int, down: float, across: float) -> None:
        """As NumPy pads it, by an eighth and at least one pixel; the border itself is not repeated."""
        image = np.random.default_rng(size).integers(0, 256, (size, size, 3), dtype=np.uint8)
        margin = max(1, size // 8)
        top, left = (int(drawn * (2 * margin + 1)) for drawn in (down, across))
        padded = np.pad(image, [(margin, margin), (margin, margin), (0, 0)], "reflect")

        moved = crops.shifted(tf.constant(image), tf.constant([down, across], tf.float32))

        np.testing.assert_array_equal(moved.numpy(), padded[top : top + size, left : left + size])

    def test_its_shape_is_static(self) -> None:
        """Keras needs a known shape."""
        data = tf.data.Dataset.from_tensors((tf.zeros([16, 16, 3], tf.uint8), tf.constant([0.1, 0.9])))

        assert data.map(crops.shifted).element_spec == tf.TensorSpec([16, 16, 3], tf.uint8)
