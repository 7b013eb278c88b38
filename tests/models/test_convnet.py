"""The convolutional network fits any size and number of classes, and learns."""

from typing import Any

import keras
import numpy as np
import pytest
from numpy.typing import NDArray

from components.features.image import ImageFeature
from components.models import convnet

RECORDS = 16


def build(size: int, classes: int) -> Any:
    """Returns a seeded, compiled model."""
    keras.utils.set_random_seed(3)
    model = convnet.build({"image": ImageFeature(size).keras_input("image")}, classes)
    model.compile(keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy")
    return model


def noise(records: int, size: int) -> dict[str, NDArray[np.uint8]]:
    """Returns pictures of nothing: all that can be learned is which is which."""
    return {"image": np.random.default_rng(3).integers(0, 256, (records, size, size, 3), dtype=np.uint8)}


@pytest.mark.parametrize("classes", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [32, 48, 160])
def test_outputs_are_probabilities(size: int, classes: int) -> None:
    """One for each class and picture, none negative, and they sum to one."""
    found = build(size, classes)(noise(2, size), training=False).numpy()

    assert (found.shape, found.dtype) == ((2, classes), np.float32)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), [1, 1], atol=1e-6)


@pytest.mark.parametrize("size", [1, 8, 15, 16, 33, 1024])
def test_any_size_that_can_be_set_can_be_built(size: int) -> None:
    """There are as many halvings as the picture allows."""
    assert build(size, 2).output_shape == (None, 2)


def test_scaling_is_part_of_the_model() -> None:
    """It takes bytes: 0 is -1 and 255 is 1 behind its first layer."""
    model = build(32, 2)
    scaled = keras.Model(model.inputs, model.layers[1].output)
    black_to_white = np.stack([np.full((32, 32, 3), value, np.uint8) for value in (0, 255)])

    found = scaled({"image": black_to_white}).numpy()

    assert (found[0].max(), found[0].min()) == (-1, -1)
    np.testing.assert_allclose(found[1], 1, atol=1e-6)


def test_one_seed_gives_the_same_weights() -> None:
    """A run can be repeated."""
    for one, other in zip(build(32, 2).get_weights(), build(32, 2).get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_step_lowers_the_loss() -> None:
    """On the batch that it was made with."""
    model, pictures, labels = build(32, 4), noise(RECORDS, 32), np.arange(RECORDS) % 4
    before, after = (model.train_on_batch(pictures, labels, return_dict=True)["loss"] for _ in range(2))

    assert 0 < after < before


def test_sixteen_records_can_be_learned_by_heart() -> None:
    """Fifty steps name every one of them right, outside of training mode."""
    model, pictures, labels = build(32, 4), noise(RECORDS, 32), np.arange(RECORDS) % 4
    for _ in range(50):
        model.train_on_batch(pictures, labels)

    assert model(pictures, training=False).numpy().argmax(axis=1).tolist() == labels.tolist()
