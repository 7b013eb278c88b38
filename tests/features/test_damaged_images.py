"""Damage that TensorFlow accepts does not stop a training, whichever decoder is used."""

import io

import numpy as np
import tensorflow as tf
from PIL import Image

from components.features.image import ImageFeature

SEEDS = tf.constant([[1, 2], [3, 4]], tf.int64)


def photo() -> bytearray:
    """Returns a JPEG of noise."""
    out = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return bytearray(out.getvalue())


def test_a_damaged_image_is_decoded_as_tensorflow_does() -> None:
    """Other images of the batch are not affected."""
    whole, damaged = photo(), photo()
    middle = len(damaged) // 2
    damaged[middle : middle + 6] = bytes(byte ^ 0x5A for byte in damaged[middle : middle + 6])
    feature = ImageFeature(32)
    both = feature.augmented(tf.constant([bytes(whole), bytes(damaged)]), SEEDS)
    alone = feature.augmented(tf.constant([bytes(whole)]), SEEDS[:1])

    np.testing.assert_array_equal(both[0], alone[0])
    assert int(tf.reduce_max(both[1])) > 0
