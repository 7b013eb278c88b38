"""Convolutions for images and image-like tensors: blocks with pooling between them while the map is large enough."""

import keras
from keras import layers

_LARGEST_MAP = 64  # the first convolution halves longer sides, which quarters the cost of all later ones
_WIDTHS = (32, 64, 128, 192)


def convolve(x: keras.KerasTensor, smallest: int, name: str) -> keras.KerasTensor:
    """Returns [n, width]: the last feature map, averaged over its positions.

    Args:
        x: [n, height, width, channels]; height and width are halved independently.
        smallest: a side is not halved below this length.
        name: prefix of the layer names.
    """
    sides = tuple(x.shape[1:3])
    strides = tuple(2 if side > _LARGEST_MAP else 1 for side in sides)
    for number, width in enumerate(_WIDTHS, start=1):
        x = _block(x, width, strides, f"{name}_block_{number}")
        sides = tuple(side // stride for side, stride in zip(sides, strides, strict=True))
        pool = tuple(2 if side >= 2 * smallest else 1 for side in sides)
        if pool == (1, 1):
            break
        x = layers.MaxPooling2D(pool, name=f"{name}_block_{number}_pool")(x)
        sides, strides = tuple(side // each for side, each in zip(sides, pool, strict=True)), (1, 1)
    return layers.GlobalAveragePooling2D(name=f"{name}_mean")(x)


def _block(x: keras.KerasTensor, width: int, strides: tuple[int, ...], name: str) -> keras.KerasTensor:
    x = layers.Conv2D(width, 3, strides, padding="same", use_bias=False, name=f"{name}_conv")(x)
    x = layers.BatchNormalization(momentum=0.9, name=f"{name}_norm")(x)
    return layers.Activation("relu", name=f"{name}_relu")(x)
