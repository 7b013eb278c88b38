"""Brightness, contrast, saturation and hue of a image: one affine map of its colours.

    colour ─► turned and stretched about gray (3 x 3) ─► stretched about the image's mean ─► moved

Hue and saturation are those of the YIQ space, where both are linear: hue turns the two colour axes, saturation
stretches them, and gray stays gray. All is done in one go on floats, and rounded once.
"""

import math

import numpy as np
import tensorflow as tf

from components.features import randomness
from components.settings.input import Augmentation

NUMBERS = 4  # draws a image needs
_WHITE = 255.0
_YIQ = np.array([[0.299, 0.587, 0.114], [0.595716, -0.274453, -0.321263], [0.211456, -0.522591, 0.311135]])
_BACK = np.linalg.inv(_YIQ)


def is_varied(how: Augmentation) -> bool:
    """Whether colours are to be changed at all."""
    return bool(how.brightness or how.contrast or how.saturation or how.hue)


def vary(images: tf.Tensor, drawn: tf.Tensor, how: Augmentation) -> tf.Tensor:
    """Returns uint8 images [n, h, w, 3] in other colours; NUMBERS within [0, 1) decide about each of them."""
    brightness, contrast, saturation, hue = (drawn[:, number, tf.newaxis] for number in range(NUMBERS))
    count = tf.shape(images)[0]
    # Flat: what has an axis of three is worked on three numbers at a time, which takes five times as long.
    flat = tf.cast(tf.reshape(images, [count, -1]), tf.float32)
    if how.saturation or how.hue:
        stretch = randomness.between(saturation[:, 0], 1 - how.saturation, 1 + how.saturation)
        turn = randomness.between(hue[:, 0], -how.hue, how.hue) * 2 * math.pi
        turned = tf.matmul(tf.reshape(flat, [count, -1, 3]), _matrices(stretch, turn), transpose_b=True)
        flat = tf.reshape(turned, [count, -1])
    factor = randomness.between(contrast, 1 - how.contrast, 1 + how.contrast)
    move = randomness.between(brightness, -how.brightness, how.brightness) * _WHITE
    if how.contrast:
        flat, move = flat * factor, move + (1 - factor) * tf.reduce_mean(flat, axis=1, keepdims=True)
    return tf.ensure_shape(tf.reshape(to_bytes(flat + move), tf.shape(images)), images.shape)


def to_bytes(colours: tf.Tensor) -> tf.Tensor:
    """Rounds colours to the nearest byte, and cuts off what is beyond black and white."""
    return tf.cast(tf.clip_by_value(tf.round(colours), 0, _WHITE), tf.uint8)


def _matrices(stretch: tf.Tensor, turn: tf.Tensor) -> tf.Tensor:
    """Returns n of 3 x 3: to YIQ, the colour axes turned and stretched, and back."""
    across, along = stretch * tf.cos(turn), stretch * tf.sin(turn)
    nought, one = tf.zeros_like(across), tf.ones_like(across)
    rows = tf.stack([one, nought, nought, nought, across, -along, nought, along, across], axis=1)
    turned = tf.reshape(rows, [-1, 3, 3])
    return tf.constant(_BACK, tf.float32) @ turned @ tf.constant(_YIQ, tf.float32)
