"""A pretrained network as the encoder of pictures: frozen, or trained on with all the rest.

uint8 picture ─► its own size and dtype ─► network ─► vector
"""

import keras
from keras import layers, ops


def encode(picture: keras.KerasTensor, network: keras.Model, trainable: bool) -> keras.KerasTensor:
    """Returns what the network makes of pictures [n, side, side, 3].

    Args:
        picture: of any side.
        network: a model of pictures that ends in a vector.
        trainable: whether it learns, too; if not, its normalisations keep what they have learned.
    """
    network.trainable = trainable
    _, height, width, _ = network.inputs[0].shape
    if height and (height, width) != tuple(picture.shape[1:3]):
        picture = layers.Resizing(height, width)(picture)
    pixels = ops.cast(picture, network.inputs[0].dtype)
    return network(pixels) if trainable else network(pixels, training=False)
