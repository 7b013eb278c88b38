"""Pictures: as many halvings as the picture allows, then one average over what is left."""

import keras
from keras import layers

from components.models.convolution import convolve

_SMALLEST_MAP = 8


def encode(picture: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the encoding of uint8 pictures [n, side, side, channels]; casting and scaling are its first layer."""
    return convolve(layers.Rescaling(1 / 127.5, offset=-1)(picture), _SMALLEST_MAP)
