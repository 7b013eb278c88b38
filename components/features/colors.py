"""Color augmentation: brightness, contrast, saturation and hue as one affine map per image.

    color ─► rotated and scaled about gray (3 x 3) ─► scaled about the image's mean ─► shifted

Hue and saturation are those of the YIQ space, where both are linear: hue rotates the two color axes, saturation scales
them, and gray stays gray. All steps use floats, and the result is rounded once.
"""

import math

import numpy as np
import tensorflow as tf

from components.features import randomness
from components.settings.input import Augmentation

NUMBERS = 4  # random numbers per image
_WHITE = 255.0
_YIQ = np.array([[0.299, 0.587, 0.114], [0.595716, -0.274453, -0.321263], [0.211456, -0.522591, 0.311135]])
_BACK = np.linalg.inv(_YIQ)


def is_varied(augmentation: Augmentation) -> bool:
    """Whether any color is changed."""
    return bool(augmentation.brightness or augmentation.contrast or augmentation.saturation or augmentation.hue)


def vary(images: tf.Tensor, drawn: tf.Tensor, augmentation: Augmentation) -> tf.Tensor:
    """Returns uint8 images [n, h, w, 3] in other colors, determined by [n, NUMBERS] numbers in [0, 1)."""
    brightness, contrast, saturation, hue = (drawn[:, number, tf.newaxis] for number in range(NUMBERS))
    count = tf.shape(images)[0]
    # Flat: an axis of three is processed three numbers at a time, which takes five times as long.
    flat = tf.cast(tf.reshape(images, [count, -1]), tf.float32)
    if augmentation.saturation or augmentation.hue:
        scale = randomness.between(saturation[:, 0], 1 - augmentation.saturation, 1 + augmentation.saturation)
        angle = randomness.between(hue[:, 0], -augmentation.hue, augmentation.hue) * 2 * math.pi
        turned = tf.matmul(tf.reshape(flat, [count, -1, 3]), _matrices(scale, angle), transpose_b=True)
        flat = tf.reshape(turned, [count, -1])
    factor = randomness.between(contrast, 1 - augmentation.contrast, 1 + augmentation.contrast)
    shift = randomness.between(brightness, -augmentation.brightness, augmentation.brightness) * _WHITE
    if augmentation.contrast:
        flat, shift = flat * factor, shift + (1 - factor) * tf.reduce_mean(flat, axis=1, keepdims=True)
    return tf.ensure_shape(tf.reshape(to_bytes(flat + shift), tf.shape(images)), images.shape)


def to_bytes(colors: tf.Tensor) -> tf.Tensor:
    """Rounds colors to the nearest byte and clips them to black and white."""
    return tf.cast(tf.clip_by_value(tf.round(colors), 0, _WHITE), tf.uint8)


def _matrices(scale: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
    """Returns [n, 3, 3]: to YIQ, color axes rotated and scaled, and back."""
    across, along = scale * tf.cos(angle), scale * tf.sin(angle)
    zero, one = tf.zeros_like(across), tf.ones_like(across)
    rows = tf.stack([one, zero, zero, zero, across, -along, zero, along, across], axis=1)
    return tf.constant(_BACK, tf.float32) @ tf.reshape(rows, [-1, 3, 3]) @ tf.constant(_YIQ, tf.float32)
