"""The image encoder takes any size and scales pixels."""

from typing import Any

import keras
import numpy as np
import pytest

from components.models import image, joined
from components.models.heads import Classification


def build(size: int, classes: int) -> Any:
    """Returns a seeded classifier."""
    keras.utils.set_random_seed(3)
    pixels = keras.Input([size, size, 3], dtype="uint8", name="image")
    return joined.build({"image": pixels}, [image.encode(pixels)], Classification(classes))


@pytest.mark.parametrize(("size", "classes"), [(32, 2), (48, 5), (160, 3)])
def test_outputs_are_probabilities(size: int, classes: int) -> None:
    """One per class and image, for images of any size."""
    noise = np.random.default_rng(3).integers(0, 256, (2, size, size, 3), dtype=np.uint8)
    found = build(size, classes)({"image": noise}, training=False).numpy()

    assert (found.shape, found.dtype) == ((2, classes), np.float32)
    np.testing.assert_allclose(found.sum(axis=1), [1, 1], atol=1e-6)


@pytest.mark.parametrize("size", [1, 15, 1024])
def test_a_model_of_any_size_can_be_built(size: int) -> None:
    """The map is halved as often as its size allows."""
    assert build(size, 2).output_shape == (None, 2)


@pytest.mark.parametrize(("size", "maps"), [(8, 8), (16, 8), (32, 8), (64, 8), (65, 8), (160, 10), (300, 9)])
def test_the_last_map_has_eight_to_fifteen_pixels_per_side(size: int, maps: int) -> None:
    """If four halvings are enough."""
    (average,) = (layer for layer in build(size, 2).layers if isinstance(layer, keras.layers.GlobalAveragePooling2D))

    assert average.input.shape[1:3] == (maps, maps)


def test_scaling_is_part_of_the_model() -> None:
    """After the first layer, 0 is -1 and 255 is 1."""
    model = build(32, 2)
    scaled = keras.Model(model.input, model.layers[1].output)
    black_to_white = np.stack([np.full((32, 32, 3), value, np.uint8) for value in (0, 255)])

    found = scaled({"image": black_to_white}).numpy()

    assert (found[0].max(), found[0].min()) == (-1, -1)
    np.testing.assert_allclose(found[1], 1, atol=1e-6)
