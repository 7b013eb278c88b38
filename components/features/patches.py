"""Augmentation by rectangles and by pairs of images: erase, mixup, cutmix.

An image is mixed with its neighbour in the shuffled batch: the next one, and the first one for the last.
Labels of a mixture are class probabilities: 0.7 of one class and 0.3 of the other.
"""

import math

import numpy as np
import tensorflow as tf

from components.features import randomness
from components.settings.input import Augmentation

NUMBERS = 8  # random numbers per image for erase
_SLIMMEST = 0.3  # minimum aspect ratio of the rectangle; its inverse is the maximum
_SMALLEST = 0.02  # minimum fraction of the area
_LEAST = np.finfo(np.float32).tiny

Mixed = tuple[tf.Tensor, tf.Tensor]


def erase(pixels: tf.Tensor, drawn: tf.Tensor, augmentation: Augmentation) -> tf.Tensor:
    """Paints a rectangle of one color over some images of a batch, determined by [n, NUMBERS] numbers in [0, 1)."""
    area = randomness.between(drawn[:, 1], min(_SMALLEST, augmentation.erase_area), augmentation.erase_area)
    ratio = tf.exp(randomness.between(drawn[:, 2], math.log(_SLIMMEST), -math.log(_SLIMMEST)))
    sides = tf.minimum(tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)], axis=1), 1)
    boxes = _boxes(pixels, drawn[:, 3:5], sides)
    places = tf.range(pixels.shape[1])
    down, across = (
        (places >= boxes[:, axis, tf.newaxis]) & (places < boxes[:, axis, tf.newaxis] + boxes[:, axis + 2, tf.newaxis])
        for axis in (0, 1)
    )
    inside = (
        down[:, :, tf.newaxis] & across[:, tf.newaxis] & (drawn[:, 0] < augmentation.erase)[:, tf.newaxis, tf.newaxis]
    )
    color = tf.cast(drawn[:, 5:8] * 256, pixels.dtype)
    return tf.where(inside[..., tf.newaxis], color[:, tf.newaxis, tf.newaxis], pixels)


def mix(pixels: tf.Tensor, shares: tf.Tensor, seeds: tf.Tensor, augmentation: Augmentation) -> Mixed:
    """Mixes each image and its label with its neighbour's by mixup or cutmix; with both set, one of them per batch."""
    seed = seeds[0]  # the first record determines the batch
    if not augmentation.cutmix:
        return _mixup(pixels, shares, seed, augmentation.mixup)
    if not augmentation.mixup:
        return _cutmix(pixels, shares, seed, augmentation.cutmix)
    heads = tf.random.stateless_uniform([], seed) < 0.5  # noqa: PLR2004 - a coin
    mixed: Mixed = tf.cond(
        heads,
        lambda: _mixup(pixels, shares, seed, augmentation.mixup),
        lambda: _cutmix(pixels, shares, seed, augmentation.cutmix),
    )
    return mixed


def _mixup(pixels: tf.Tensor, shares: tf.Tensor, seed: tf.Tensor, alpha: float) -> Mixed:
    own = _beta(tf.shape(pixels)[0], seed, alpha)

    def one(item: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        number, kept = item
        mine, other = (tf.cast(tf.reshape(image, [-1]), tf.float32) for image in _pair(pixels, number))
        blended = tf.round(kept * mine + (1 - kept) * other)
        return tf.reshape(tf.cast(blended, pixels.dtype), pixels.shape[1:])

    return _each(one, pixels, (own,)), _blended(shares, own)


def _cutmix(pixels: tf.Tensor, shares: tf.Tensor, seed: tf.Tensor, alpha: float) -> Mixed:
    count = tf.shape(pixels)[0]
    sides = tf.tile(tf.sqrt(1 - _beta(count, seed, alpha))[:, tf.newaxis], [1, 2])
    places = tf.random.stateless_uniform(tf.shape(sides), seed + 1)
    boxes = _boxes(pixels, places, sides)

    def one(item: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        number, (top, left, height, width) = item[0], tf.unstack(item[1], 4)
        mine, other = _pair(pixels, number)
        return _pasted(mine, other[top : top + height, left : left + width], top, left)

    # From the pixels that were cut, not from the fraction that was drawn: a side is a whole number of pixels.
    area = tf.cast(tf.reduce_prod(boxes[:, 2:], axis=1), tf.float32)
    own = 1 - area / tf.cast(tf.reduce_prod(tf.shape(pixels)[1:3]), tf.float32)
    return _each(one, pixels, (boxes,)), _blended(shares, own)


def _boxes(pixels: tf.Tensor, places: tf.Tensor, sides: tf.Tensor) -> tf.Tensor:
    """Returns int32 [n, 4]: top, left, height, width of rectangles whose sides are given as fractions of the image.

    All positions are equally likely, the first and the last included.
    """
    lengths = tf.cast(tf.shape(pixels)[1:3], tf.float32)
    long = tf.round(sides * lengths)
    room = lengths - long
    # A number just below one, times a large integer, may be rounded up to the integer.
    starts = tf.minimum(tf.floor(places * (room + 1)), room)
    return tf.cast(tf.concat([starts, long], axis=1), tf.int32)


def _pasted(image: tf.Tensor, patch: tf.Tensor, top: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
    """Puts a patch into an image; slices are copied as a whole, because tf.where per pixel takes far longer."""
    bottom, right = top + tf.shape(patch)[0], left + tf.shape(patch)[1]
    rows = tf.concat([image[top:bottom, :left], patch, image[top:bottom, right:]], axis=1)
    return tf.ensure_shape(tf.concat([image[:top], rows, image[bottom:]], axis=0), image.shape)


def _pair(pixels: tf.Tensor, number: tf.Tensor) -> Mixed:
    return pixels[number], pixels[(number + 1) % tf.shape(pixels)[0]]


def _each(work: object, pixels: tf.Tensor, chosen: tuple[tf.Tensor, ...]) -> tf.Tensor:
    numbers = tf.range(tf.shape(pixels)[0])
    return tf.map_fn(work, (numbers, *chosen), fn_output_signature=tf.TensorSpec(pixels.shape[1:], pixels.dtype))


def _beta(count: tf.Tensor, seed: tf.Tensor, alpha: float) -> tf.Tensor:
    gammas = tf.random.stateless_gamma([2, count], seed, alpha)
    total = tf.reduce_sum(gammas, axis=0)
    # With a small alpha both may underflow, to the smallest float and not to zero; then the image is not mixed.
    return tf.where(total > 2 * _LEAST, gammas[0] / total, 1.0)


def _blended(shares: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
    kept = own[:, tf.newaxis]
    return kept * shares + (1 - kept) * tf.roll(shares, shift=-1, axis=0)
