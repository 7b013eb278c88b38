"""Images: compressed bytes in the record, uint8 pixels on the device."""

from dataclasses import dataclass

import keras
import tensorflow as tf

from components.features import DataShape
from components.settings import Input

CHANNELS = 3
_SMALLEST, _LARGEST = 32, 160  # bounds of a side that is taken from the data


@dataclass(frozen=True)
class ImageFeature:
    """A square RGB picture of `size` pixels a side."""

    size: int

    @classmethod
    def of(cls, settings: Input, data: DataShape) -> "ImageFeature":
        """Returns the feature at the size that is set, or else at the data's own, within reason."""
        return cls(settings.image_size or max(_SMALLEST, min(_LARGEST, data.median_side)))

    @staticmethod
    def spec() -> tf.io.FixedLenFeature:
        """One string: JPEG or PNG, as ingest checked it."""
        return tf.io.FixedLenFeature([], tf.string)

    def decode(self, content: tf.Tensor) -> tf.Tensor:
        """Turns encoded bytes into uint8 pixels of the model's size."""
        pixels = tf.io.decode_image(content, channels=CHANNELS, expand_animations=False)
        pixels.set_shape([None, None, CHANNELS])
        resized = tf.image.resize(pixels, [self.size, self.size], antialias=True)
        # uint8 to the device: a quarter of the transfer, and the cast costs nothing in the model's first layer.
        return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)

    def augment(self, pixels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Shifts the picture by up to an eighth, and changes brightness and contrast a little.

        No mirror: what a person writes or reads (digits, signs, text) means something else in a mirror.
        """
        margin = max(1, self.size // 8)
        padded = tf.pad(pixels, [[margin, margin], [margin, margin], [0, 0]], mode="REFLECT")
        shape = [self.size, self.size, CHANNELS]
        place, light, contrast = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
        pixels = tf.image.stateless_random_crop(padded, shape, place)
        pixels = tf.image.stateless_random_brightness(pixels, 0.1, light)
        return tf.image.stateless_random_contrast(pixels, 0.9, 1.1, contrast)

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input."""
        return keras.Input([self.size, self.size, CHANNELS], dtype="uint8", name=name)
