"""Images: as many halvings as the image allows, then one average over what is left."""

from collections.abc import Mapping, Sequence

import keras
from keras import layers

from components.models import Fitted, pretrained
from components.models.convolution import convolve
from components.records.roles import Column

_SMALLEST_MAP = 8


def encode(image: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the encoding of uint8 images [n, side, side, channels]; casting and scaling are its first layer."""
    return convolve(layers.Rescaling(1 / 127.5, offset=-1)(image), _SMALLEST_MAP)


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: Fitted
) -> list[keras.KerasTensor]:
    """Returns the encoding of every image of a record."""
    given = fitted.network()
    if given is None:
        return [encode(inputs[column.name]) for column in columns]
    return [pretrained.encode(inputs[column.name], *given) for column in columns]
