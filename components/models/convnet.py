"""The classifier of pictures."""

from collections.abc import Mapping

import keras

from components.models import image, joined
from components.models.heads import Classification


def build(inputs: Mapping[str, keras.KerasTensor], classes: int) -> keras.Model:
    """Returns a classifier of uint8 pictures."""
    (picture,) = inputs.values()
    return joined.build(inputs, [image.encode(picture)], Classification(classes))
