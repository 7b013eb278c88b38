"""A pretrained network as the encoder of images: frozen, or trained on with all the rest.

uint8 image ─► its own size and dtype ─► network ─► vector
"""

import keras
from keras import layers, ops


def encode(image: keras.KerasTensor, network: keras.Model, trainable: bool) -> keras.KerasTensor:
    """Returns what the network makes of images [n, side, side, 3].

    Args:
        image: of any side.
        network: a model of images that ends in a vector.
        trainable: whether it learns, too; if not, its normalisations keep what they have learned.
    """
    network.trainable = trainable
    _, height, width, _ = network.inputs[0].shape
    if height and (height, width) != tuple(image.shape[1:3]):
        image = layers.Resizing(height, width)(image)
    pixels = ops.cast(image, network.inputs[0].dtype)
    return network(pixels) if trainable else network(pixels, training=False)
