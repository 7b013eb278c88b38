"""Image encoder: convolutions of our own, or a pretrained model."""

from collections.abc import Mapping, Sequence

import keras
from keras import layers, ops

from components.features import FittedGraph
from components.models.convolution import convolve
from components.models.names import layer_name
from components.records.roles import Column

_SMALLEST_MAP = 8


def encode(image: keras.KerasTensor, name: str = "image") -> keras.KerasTensor:
    """Returns the encoding of uint8 images [n, side, side, channels]; the first layer casts and scales them."""
    return convolve(layers.Rescaling(1 / 127.5, offset=-1, name=f"{name}_scale")(image), _SMALLEST_MAP, name)


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: FittedGraph
) -> list[keras.KerasTensor]:
    """Returns one encoding per image column."""
    given = fitted.pretrained_model()
    if given is None:
        return [encode(inputs[column.name], layer_name("image", column.name)) for column in columns]
    return [embed(inputs[column.name], *given, layer_name("image", column.name)) for column in columns]


def embed(image: keras.KerasTensor, model: keras.Model, trainable: bool, name: str = "image") -> keras.KerasTensor:
    """Returns the embedding of images [n, side, side, 3] by a pretrained model, frozen or fine-tuned.

    Args:
        image: images of any size; they are resized and cast to the model's input.
        model: a model with one image input and a vector as output.
        trainable: whether to fine-tune the model; if not, batch normalization uses its stored moments.
        name: prefix of the layer names.
    """
    model.trainable = trainable
    _, height, width, _ = model.inputs[0].shape
    if height and (height, width) != tuple(image.shape[1:3]):
        image = layers.Resizing(height, width, name=f"{name}_resize")(image)
    pixels = ops.cast(image, model.inputs[0].dtype)
    embedding = model(pixels) if trainable else model(pixels, training=False)
    return layers.Identity(name=f"{name}_embedding")(embedding)
