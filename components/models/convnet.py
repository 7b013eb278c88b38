"""A small convolutional network: as many halvings as the picture allows, then one average over what is left."""

from collections.abc import Mapping

import keras
from keras import layers

_SMALLEST_MAP = 8
_LARGEST_MAP = 64  # a larger picture is halved by the first layer: a quarter of the work in all that follow
_WIDTHS = (32, 64, 128, 192)


def build(inputs: Mapping[str, keras.KerasTensor], classes: int) -> keras.Model:
    """Returns a classifier of uint8 pictures; casting and scaling are its first layer."""
    (picture,) = inputs.values()
    x = layers.Rescaling(1 / 127.5, offset=-1)(picture)
    side = picture.shape[1]
    for number, width in enumerate(_WIDTHS):
        strides = 2 if number == 0 and side > _LARGEST_MAP else 1
        x = _block(x, width, strides)
        side //= strides
        if side < 2 * _SMALLEST_MAP:
            break
        x = layers.MaxPooling2D()(x)
        side //= 2
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    probabilities = layers.Dense(classes, activation="softmax", dtype="float32")(x)
    return keras.Model(dict(inputs), probabilities)


def _block(x: keras.KerasTensor, width: int, strides: int) -> keras.KerasTensor:
    x = layers.Conv2D(width, 3, strides, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    return layers.Activation("relu")(x)
