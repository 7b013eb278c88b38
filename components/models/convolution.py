"""What images and image-like tensors share: convolutions with as many halvings between them as the sides allow."""

import keras
from keras import layers

_LARGEST_MAP = 64  # a longer side is halved by the first layer: a quarter of the work in all that follow
_WIDTHS = (32, 64, 128, 192)


def convolve(x: keras.KerasTensor, smallest: int) -> keras.KerasTensor:
    """Returns [n, width]: the average over the last map.

    Args:
        x: [n, height, width, channels]; sides may differ and are halved each as often as it allows.
        smallest: side below which nothing is halved.
    """
    sides = tuple(x.shape[1:3])
    strides = tuple(2 if side > _LARGEST_MAP else 1 for side in sides)
    for width in _WIDTHS:
        x = _block(x, width, strides)
        sides = tuple(side // stride for side, stride in zip(sides, strides, strict=True))
        pool = tuple(2 if side >= 2 * smallest else 1 for side in sides)
        if pool == (1, 1):
            break
        x = layers.MaxPooling2D(pool)(x)
        sides, strides = tuple(side // each for side, each in zip(sides, pool, strict=True)), (1, 1)
    return layers.GlobalAveragePooling2D()(x)


def _block(x: keras.KerasTensor, width: int, strides: tuple[int, ...]) -> keras.KerasTensor:
    x = layers.Conv2D(width, 3, strides, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    return layers.Activation("relu")(x)
