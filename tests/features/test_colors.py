"""Colors change by at most the settings, gray stays gray, and random numbers of 0.5 change nothing."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from components.features import colors
from components.settings.input import Augmentation

Pixels = NDArray[np.uint8]
NEVER = {"brightness": 0.0, "contrast": 0.0}
LUMA = np.array([0.299, 0.587, 0.114])
MOST = 1 - 2**-24
# By the definition of YIQ: luma, and two color axes.
YIQ = np.array([LUMA, [0.595716, -0.274453, -0.321263], [0.211456, -0.522591, 0.311135]])


def noise(low: int = 0, high: int = 256) -> Pixels:
    """Returns an image of random colors."""
    return np.random.default_rng(1).integers(low, high, (6, 8, 3), dtype=np.uint8)


def vary(image: Pixels, drawn: list[float], **how: Any) -> Pixels:
    """Returns an image in other colors, for random numbers of brightness, contrast, saturation and hue."""
    varied: Pixels = colors.vary(tf.constant(image)[None], tf.constant([drawn]), Augmentation(**(NEVER | how)))[
        0
    ].numpy()
    return varied


def rounded(colour: NDArray[np.float64]) -> Pixels:
    """Returns the nearest bytes."""
    return np.clip(np.rint(colour), 0, 255).astype(np.uint8)


def assert_near(found: Pixels, expected: Pixels) -> None:
    """Compares pixels up to one rounding of float32."""
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("how", "varied"),
    [
        ({}, False),
        ({"brightness": 0.1}, True),
        ({"contrast": 0.1}, True),
        ({"saturation": 0.1}, True),
        ({"hue": 0.1}, True),
        ({"erase": 1, "flip": 1, "mixup": 1}, False),
    ],
    ids=str,
)
def test_it_is_known_whether_colors_change(how: dict[str, float], varied: bool) -> None:
    """So that unused settings cost nothing."""
    assert colors.is_varied(Augmentation(**{**NEVER, **how})) is varied


def test_numbers_in_the_middle_change_nothing() -> None:
    """All four ranges are symmetric."""
    image = noise()

    assert_near(vary(image, [0.5] * 4, brightness=1, contrast=0.9, saturation=1, hue=0.5), image)


def test_a_number_without_a_setting_has_no_effect() -> None:
    """Only the settings matter."""
    np.testing.assert_array_equal(vary(noise(), [0.0, 0.1, 0.9, 0.7]), noise())


class TestBrightness:
    """An offset for all channels."""

    @pytest.mark.parametrize(("drawn", "move"), [(0.0, -51), (0.25, -25.5), (0.75, 25.5), (MOST, 51)])
    def test_it_shifts_by_a_fraction_of_the_range(self, drawn: float, move: float) -> None:
        """A fifth is 51 of 255; values are clipped at black and white."""
        found = vary(noise(), [drawn, 0.5, 0.5, 0.5], brightness=0.2)

        assert_near(found, rounded(noise().astype(float) + move))

    def test_all_of_it_is_black_or_white(self) -> None:
        """The extremes."""
        black, white = (vary(noise(), [drawn, 0.5, 0.5, 0.5], brightness=1) for drawn in (0.0, MOST))

        assert (set(black.ravel()), set(white.ravel())) == ({0}, {255})


class TestContrast:
    """A scale about the image's mean."""

    @pytest.mark.parametrize(("drawn", "factor"), [(0.0, 0.6), (0.25, 0.8), (0.75, 1.2), (MOST, 1.4)])
    def test_it_scales_about_the_mean(self, drawn: float, factor: float) -> None:
        """One mean for all channels, so that gray stays gray."""
        image = noise()

        found = vary(image, [0.5, drawn, 0.5, 0.5], contrast=0.4)

        assert_near(found, rounded(image.mean() + factor * (image - image.mean())))

    def test_a_uniform_image_is_unchanged(self) -> None:
        """It has no contrast."""
        flat = np.full((4, 4, 3), 77, np.uint8)

        np.testing.assert_array_equal(vary(flat, [0.5, 0.0, 0.5, 0.5], contrast=0.9), flat)


class TestSaturation:
    """The distance of colors from gray."""

    def test_the_minimum_is_gray_of_the_same_luma(self) -> None:
        """With a setting of 1."""
        image = noise()

        found = vary(image, [0.5, 0.5, 0.0, 0.5], saturation=1)

        assert_near(found, rounded(np.repeat((image @ LUMA)[..., None], 3, axis=2)))

    @pytest.mark.parametrize(("drawn", "factor"), [(0.0, 0.5), (0.25, 0.75), (0.75, 1.25), (MOST, 1.5)])
    def test_it_scales_about_gray(self, drawn: float, factor: float) -> None:
        """Each pixel about its own luma."""
        image = noise()
        gray = (image @ LUMA)[..., None]

        found = vary(image, [0.5, 0.5, drawn, 0.5], saturation=0.5)

        assert_near(found, rounded(gray + factor * (image - gray)))


class TestHue:
    """The angle on the color circle."""

    @pytest.mark.parametrize(("drawn", "turn"), [(0.0, -0.1), (0.25, -0.05), (0.75, 0.05), (MOST, 0.1)])
    def test_it_rotates_by_a_fraction_of_the_circle(self, drawn: float, turn: float) -> None:
        """Luma and saturation stay; the colors are far from being clipped."""
        image = noise(100, 150)

        before, after = (
            pixels.reshape(-1, 3) @ YIQ.T for pixels in (image, vary(image, [0.5, 0.5, 0.5, drawn], hue=0.1))
        )

        was, now = (spaces[:, 1] + 1j * spaces[:, 2] for spaces in (before, after))
        np.testing.assert_allclose(after[:, 0], before[:, 0], atol=0.6)
        np.testing.assert_allclose(now, was * np.exp(2j * np.pi * turn), atol=1.2)

    def test_gray_stays_gray(self) -> None:
        """It has no hue."""
        gray = np.repeat(np.arange(0, 256, 4, dtype=np.uint8).reshape(8, 8, 1), 3, axis=2)

        assert_near(vary(gray, [0.5, 0.5, 0.9, 0.0], saturation=1, hue=0.5), gray)


def test_all_settings_together_apply_one_after_the_other() -> None:
    """Saturation, then contrast, then brightness, with one rounding at the end."""
    image = noise(60, 190)
    gray = (image @ LUMA)[..., None]
    saturated = gray + 1.25 * (image - gray)
    expected = saturated.mean() + 0.8 * (saturated - saturated.mean()) + 25.5

    found = vary(image, [0.75, 0.25, 0.75, 0.5], brightness=0.2, contrast=0.4, saturation=0.5)

    assert_near(found, rounded(expected))


def test_tf_data_gives_the_pixels_of_eager_calls() -> None:
    """With a static shape."""
    how = Augmentation(brightness=0.3, contrast=0.3, saturation=0.3, hue=0.3)
    drawn = np.random.default_rng(2).random((5, colors.NUMBERS), dtype=np.float32)
    data = tf.data.Dataset.from_tensor_slices(drawn).map(
        lambda numbers: colors.vary(tf.constant(noise())[None], numbers[None], how)[0]
    )

    eager = [colors.vary(tf.constant(noise())[None], tf.constant([numbers]), how)[0].numpy() for numbers in drawn]

    assert data.element_spec == tf.TensorSpec([6, 8, 3], tf.uint8)
    for found, expected in zip(data.as_numpy_iterator(), eager, strict=True):
        assert_near(found, expected)
