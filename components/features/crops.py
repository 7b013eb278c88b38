"""Random crops: boxes for a whole batch from the sizes of its images, before any is decoded.

    none, shift   the whole image, or its largest square
    random        a part of the model's size, not resized
    resized       a part of any size, slightly stretched

A box is (top, left, height, width) in pixels, inside its image. `shift` moves the finished image instead: the uncovered
border is filled with the mirrored image, which no box can contain.
"""

import math

import tensorflow as tf

from components.features import randomness
from components.settings.input import Augmentation

NUMBERS = 4  # random numbers per box
_SHIFT = 8  # a shift is at most this fraction of the side: 1/8


def boxes(shapes: tf.Tensor, drawn: tf.Tensor, size: int, fit: str, augmentation: Augmentation) -> tf.Tensor:
    """Returns boxes int32 [n, 4] for image sizes [n, 2], determined by [n, NUMBERS] numbers in [0, 1)."""
    if augmentation.crop == "random":
        sides = tf.minimum(shapes, size)
    elif augmentation.crop == "resized":
        sides = _resized(shapes, drawn[:, :2], augmentation)
    else:
        return whole(shapes, fit)
    room = tf.cast(shapes - sides + 1, tf.float32)
    return tf.concat([_floor(drawn[:, 2:4] * room, shapes - sides), sides], axis=1)


def whole(shapes: tf.Tensor, fit: str) -> tf.Tensor:
    """Returns boxes of whole images, or of their largest centered squares if `fit` is center."""
    if fit == "stretch":
        return tf.concat([tf.zeros_like(shapes), shapes], axis=1)
    side = tf.reduce_min(shapes, axis=1, keepdims=True)
    return tf.concat([(shapes - side) // 2, tf.tile(side, [1, 2])], axis=1)


def shifted(image: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
    """Shifts an image by up to an eighth in both directions, determined by two numbers in [0, 1)."""
    margin = max(1, image.shape[0] // _SHIFT)
    offsets = _floor(drawn * (2 * margin + 1), 2 * margin) - margin
    return _moved(_moved(image, offsets[0], 0), offsets[1], 1)


def shifted_batch(pixels: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
    """Shifts every image of a batch like `shifted`, with one gather."""
    count, size = tf.shape(pixels)[0], pixels.shape[1]
    margin = max(1, size // _SHIFT)
    offsets = _floor(drawn * (2 * margin + 1), 2 * margin) - margin
    down, across = (_mirrored(tf.range(size) + offsets[:, axis, tf.newaxis], size) for axis in (0, 1))
    flat = tf.reshape(down[:, :, tf.newaxis] * size + across[:, tf.newaxis], [count, size * size])
    taken = tf.gather(tf.reshape(pixels, [count, size * size, pixels.shape[3]]), flat, batch_dims=1)
    return tf.ensure_shape(tf.reshape(taken, tf.shape(pixels)), pixels.shape)


def flipped(pixels: tf.Tensor, flips: tf.Tensor) -> tf.Tensor:
    """Flips those images of a batch vertically that `flips` marks."""
    return tf.where(flips[:, tf.newaxis, tf.newaxis, tf.newaxis], pixels[:, ::-1], pixels)


def _mirrored(places: tf.Tensor, size: int) -> tf.Tensor:
    return size - 1 - tf.abs(size - 1 - tf.abs(places))


def _resized(shapes: tf.Tensor, drawn: tf.Tensor, augmentation: Augmentation) -> tf.Tensor:
    """Draws the area uniformly and the aspect ratio log-uniformly; a side never exceeds the image's.

    Other libraries draw again, up to ten times, if a side is too long; here it is cut. Few boxes differ.
    """
    area = randomness.between(drawn[:, 0], augmentation.crop_area, 1) * tf.cast(
        tf.reduce_prod(shapes, axis=1), tf.float32
    )
    ratio = tf.exp(
        randomness.between(drawn[:, 1], -math.log(augmentation.crop_ratio), math.log(augmentation.crop_ratio))
    )
    sides = tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)], axis=1)
    return tf.clip_by_value(tf.cast(tf.round(sides), tf.int32), 1, shapes)


def _floor(places: tf.Tensor, most: tf.Tensor | int) -> tf.Tensor:
    # A number just below one, times a large integer, may be rounded up to the integer.
    return tf.minimum(tf.cast(places, tf.int32), most)


def _moved(image: tf.Tensor, offset: tf.Tensor, axis: int) -> tf.Tensor:
    """Shifts along one axis; the uncovered part mirrors the image, without repeating the border."""
    size = image.shape[axis]
    ahead, behind = tf.maximum(offset, 0), tf.maximum(-offset, 0)
    # Slices are copied as a whole: TensorFlow's mirrored padding takes five times as long.
    before = tf.reverse(_strip(image, 1, behind, axis), [axis])
    after = tf.reverse(_strip(image, size - 1 - ahead, ahead, axis), [axis])
    middle = _strip(image, ahead, size - ahead - behind, axis)
    return tf.ensure_shape(tf.concat([before, middle, after], axis=axis), image.shape)


def _strip(image: tf.Tensor, first: tf.Tensor | int, count: tf.Tensor, axis: int) -> tf.Tensor:
    begin, length = ([first, 0, 0], [count, -1, -1]) if axis == 0 else ([0, first, 0], [-1, count, -1])
    return tf.slice(image, begin, length)
