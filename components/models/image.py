"""Image encoder: convolutions of our own, or a pretrained model."""

from collections.abc import Mapping, Sequence

import keras
from keras import layers

from components.features import FittedGraph
from components.models import pretrained
from components.models.convolution import convolve
from components.records.roles import Column

_SMALLEST_MAP = 8


def encode(image: keras.KerasTensor, name: str = "image") -> keras.KerasTensor:
    """Returns the encoding of uint8 images [n, side, side, channels]; the first layer casts and scales them."""
    return convolve(layers.Rescaling(1 / 127.5, offset=-1)(image), _SMALLEST_MAP, name)


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: FittedGraph
) -> list[keras.KerasTensor]:
    """Returns one encoding per image column."""
    given = fitted.pretrained_model()
    if given is None:
        return [encode(inputs[column.name], f"image_{number}") for number, column in enumerate(columns, start=1)]
    return [pretrained.encode(inputs[column.name], *given) for column in columns]
