"""A pretrained network as an encoder: frozen or not, at its own size."""

from typing import Any

import keras
import numpy as np
import pytest

from components.models import pretrained


def network() -> Any:
    """Returns a small network of float images with a normalisation in it."""
    keras.utils.set_random_seed(3)
    image = keras.Input([8, 8, 3])
    x = keras.layers.BatchNormalization()(keras.layers.Conv2D(4, 3)(image))
    return keras.Model(image, keras.layers.GlobalAveragePooling2D()(x))


@pytest.mark.parametrize(("trainable", "learned"), [(False, 0), (True, 6)])
def test_frozen_weights_stay_and_others_learn(trainable: bool, learned: int) -> None:
    """Moments of a normalisation are weights, too."""
    net = network()
    before = [weight.numpy() for weight in net.weights]
    image = keras.Input([16, 16, 3], dtype="uint8")
    model = keras.Model(image, keras.layers.Dense(1)(pretrained.encode(image, net, trainable)))
    model.compile("sgd", "mse")
    pixels = np.random.default_rng(1).integers(0, 255, (8, 16, 16, 3), np.uint8)
    model.fit(pixels, np.arange(8.0), verbose=0)

    assert sum(not np.array_equal(a, b.numpy()) for a, b in zip(before, net.weights, strict=True)) == learned
