"""A pretrained model as image encoder: frozen, or fine-tuned with the rest of the model.

uint8 image ─► resized and cast to the model's input ─► pretrained model ─► embedding
"""

import keras
from keras import layers, ops


def encode(image: keras.KerasTensor, model: keras.Model, trainable: bool) -> keras.KerasTensor:
    """Returns the embedding of images [n, side, side, 3].

    Args:
        image: images of any size.
        model: a model with one image input and a vector as output.
        trainable: whether to fine-tune the model; if not, batch normalization uses its stored moments.
    """
    model.trainable = trainable
    _, height, width, _ = model.inputs[0].shape
    if height and (height, width) != tuple(image.shape[1:3]):
        image = layers.Resizing(height, width)(image)
    pixels = ops.cast(image, model.inputs[0].dtype)
    return model(pixels) if trainable else model(pixels, training=False)
