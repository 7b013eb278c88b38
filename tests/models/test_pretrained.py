"""A pretrained model as an encoder, frozen or fine-tuned."""

from typing import Any

import keras
import numpy as np
import pytest

from components.models import image as images


def small_model() -> Any:
    """Returns a small model of float images with batch normalization."""
    keras.utils.set_random_seed(3)
    image = keras.Input([8, 8, 3])
    x = keras.layers.BatchNormalization()(keras.layers.Conv2D(4, 3)(image))
    return keras.Model(image, keras.layers.GlobalAveragePooling2D()(x))


@pytest.mark.parametrize(("trainable", "learned"), [(False, 0), (True, 6)])
def test_only_a_fine_tuned_model_changes_its_weights(trainable: bool, learned: int) -> None:
    """The moments of batch normalization are weights too."""
    encoder = small_model()
    before = [weight.numpy() for weight in encoder.weights]
    image = keras.Input([16, 16, 3], dtype="uint8")
    model = keras.Model(image, keras.layers.Dense(1)(images.embed(image, encoder, trainable)))
    model.compile("sgd", "mse")
    pixels = np.random.default_rng(1).integers(0, 255, (8, 16, 16, 3), np.uint8)
    model.fit(pixels, np.arange(8.0), verbose=0)

    assert sum(not np.array_equal(a, b.numpy()) for a, b in zip(before, encoder.weights, strict=True)) == learned
