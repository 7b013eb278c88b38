"""What is done to a part of a image, or to two images: erase, mixup, cutmix.

Partners are neighbours in the batch, which the shuffle has put together: the next one, and the first for the last.
Labels of a mixture are shares: 0.7 of one class and 0.3 of the other.
"""

import math

import numpy as np
import tensorflow as tf

from components.features import randomness
from components.settings.input import Augmentation

NUMBERS = 8  # draws a image needs to be erased
_SLIMMEST = 0.3  # ratio of the sides of what is erased, and its inverse
_SMALLEST = 0.02  # part of the area that is erased, at least
_LEAST = np.finfo(np.float32).tiny

Mixed = tuple[tf.Tensor, tf.Tensor]


def erase(image: tf.Tensor, drawn: tf.Tensor, how: Augmentation) -> tf.Tensor:
    """Paints a rectangle of one colour over the image, or does not; NUMBERS within [0, 1) decide."""
    area = randomness.between(drawn[1], min(_SMALLEST, how.erase_area), how.erase_area)
    ratio = tf.exp(randomness.between(drawn[2], math.log(_SLIMMEST), -math.log(_SLIMMEST)))
    sides = tf.minimum(tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)]), 1)
    colour = tf.cast(drawn[5:8] * 256, image.dtype)

    def painted() -> tf.Tensor:
        top, left, height, width = tf.unstack(_boxes(image[tf.newaxis], drawn[tf.newaxis, 3:5], sides[tf.newaxis])[0])
        return _pasted(image, tf.tile(colour[tf.newaxis, tf.newaxis], [height, width, 1]), top, left)

    return tf.cond(drawn[0] < how.erase, painted, lambda: image)


def erase_all(pixels: tf.Tensor, drawn: tf.Tensor, how: Augmentation) -> tf.Tensor:
    """Does to every image of a batch what `erase` does to one."""
    area = randomness.between(drawn[:, 1], min(_SMALLEST, how.erase_area), how.erase_area)
    ratio = tf.exp(randomness.between(drawn[:, 2], math.log(_SLIMMEST), -math.log(_SLIMMEST)))
    sides = tf.minimum(tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)], axis=1), 1)
    boxes = _boxes(pixels, drawn[:, 3:5], sides)
    places = tf.range(pixels.shape[1])
    down, across = (
        (places >= boxes[:, axis, tf.newaxis]) & (places < boxes[:, axis, tf.newaxis] + boxes[:, axis + 2, tf.newaxis])
        for axis in (0, 1)
    )
    inside = down[:, :, tf.newaxis] & across[:, tf.newaxis] & (drawn[:, 0] < how.erase)[:, tf.newaxis, tf.newaxis]
    colour = tf.cast(drawn[:, 5:8] * 256, pixels.dtype)
    return tf.where(inside[..., tf.newaxis], colour[:, tf.newaxis, tf.newaxis], pixels)


def mix(pixels: tf.Tensor, shares: tf.Tensor, seeds: tf.Tensor, how: Augmentation) -> Mixed:
    """Mixes each image with its neighbour by mixup or cutmix, and their labels alike; both set: a coin decides."""
    seed = seeds[0]  # a batch is mixed in one way, told by its first record
    if not how.cutmix:
        return _mixup(pixels, shares, seed, how.mixup)
    if not how.mixup:
        return _cutmix(pixels, shares, seed, how.cutmix)
    heads = tf.random.stateless_uniform([], seed) < 0.5  # noqa: PLR2004 - a coin
    mixed: Mixed = tf.cond(
        heads,
        lambda: _mixup(pixels, shares, seed, how.mixup),
        lambda: _cutmix(pixels, shares, seed, how.cutmix),
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

    # By the pixels that were cut, not by the share that was drawn: a side is a whole number of them.
    area = tf.cast(tf.reduce_prod(boxes[:, 2:], axis=1), tf.float32)
    own = 1 - area / tf.cast(tf.reduce_prod(tf.shape(pixels)[1:3]), tf.float32)
    return _each(one, pixels, (boxes,)), _blended(shares, own)


def _boxes(pixels: tf.Tensor, places: tf.Tensor, sides: tf.Tensor) -> tf.Tensor:
    """Returns int32 [n, 4]: top, left, height, width of rectangles, their sides given as parts of the image.

    Every place is as likely as any other, the first and the last among them.
    """
    lengths = tf.cast(tf.shape(pixels)[1:3], tf.float32)
    long = tf.round(sides * lengths)
    room = lengths - long
    # A number just below one, times a large room, may be rounded up to the room itself.
    starts = tf.minimum(tf.floor(places * (room + 1)), room)
    return tf.cast(tf.concat([starts, long], axis=1), tf.int32)


def _pasted(image: tf.Tensor, patch: tf.Tensor, top: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
    """Puts a patch into a image: pieces that are copied whole, as a choice pixel by pixel takes far longer."""
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
    # With a small alpha both may vanish, which is the least float here, not nought; then it is one or the other.
    return tf.where(total > 2 * _LEAST, gammas[0] / total, 1.0)


def _blended(shares: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
    kept = own[:, tf.newaxis]
    return kept * shares + (1 - kept) * tf.roll(shares, shift=-1, axis=0)
