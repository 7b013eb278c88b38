"""Images: encoded bytes in the record, uint8 pixels on the device."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import keras
import tensorflow as tf

from components.features import DataShape, FittedGraph, colors, crops, patches, pixels, randomness
from components.features.pixels import CHANNELS
from components.native.decode import loader
from components.records.roles import Column
from components.settings.input import Augmentation, Input

_SMALLEST, _LARGEST = 32, 160  # bounds of a size taken from the data
_WHOLE_BATCH = 64  # side up to which a batch is augmented at once: intermediate results fit into the CPU cache
_CROP, _SHIFT, _FLIP, _COLOR, _ERASE = range(5)  # purposes of random numbers: a new purpose changes none of the others
_SCALES = {  # of bytes: (mean, standard deviation) per channel
    "unit": (0.0, 255.0),
    "symmetric": (127.5, 127.5),
    "imagenet": ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375]),
}


@dataclass(frozen=True)
class AugmentationStep:
    """One kind of augmentation of a batch of images."""

    batch: Callable[..., tf.Tensor]  # images, random numbers … to images
    drawn: tuple[tf.Tensor, ...]  # random numbers, [n, …] each
    single: Callable[..., tf.Tensor] | None = None  # the same for one image, if there is a faster way

    def one(self, image: tf.Tensor, *numbers: tf.Tensor) -> tf.Tensor:
        """Augments one image, with the same result."""
        if self.single:
            return self.single(image, *numbers)
        return self.batch(image[tf.newaxis], *(number[tf.newaxis] for number in numbers))[0]


@dataclass(frozen=True)
class ImageFeature:
    """A square RGB image with sides of `size` pixels."""

    size: int
    fit: Literal["stretch", "center"] = "stretch"
    antialias: bool = True
    dct_shrink: bool = False
    normalise: Literal["model", "unit", "symmetric", "imagenet"] = "model"
    augmentation: Augmentation = field(default_factory=Augmentation)
    nice: int = field(default=0, compare=False)  # niceness of threads that decode; it changes no pixel

    is_ragged = False
    is_costly = True

    @classmethod
    def of(cls, settings: Input, data: DataShape) -> "ImageFeature":
        """Returns the feature with the size of the settings, or else the data's median, within 32 to 160 pixels."""
        return cls(
            settings.image_size or max(_SMALLEST, min(_LARGEST, data.median_side)),
            settings.image_fit,
            settings.antialias,
            settings.dct_shrink,
            settings.normalise,
            settings.augmentation,
            settings.nice,
        )

    @property
    def decoder(self) -> str:
        """The decoder that training uses."""
        return loader.identity()

    @property
    def decoded_bytes(self) -> int:
        """Pixels as bytes, twice while a batch is assembled; and as floats if they are scaled here."""
        return self.size**2 * CHANNELS * (2 if self.normalise == "model" else 6)

    def spec(self) -> tf.io.FixedLenFeature:
        """One string: JPEG, PNG or raw, checked by ingest."""
        return tf.io.FixedLenFeature([], tf.string)

    def decode(self, stored: tf.Tensor) -> tf.Tensor:
        """Decodes encoded bytes, or resizes pixels of any one size, to uint8 pixels of the model's size."""
        if stored.dtype == tf.string:
            return pixels.whole(stored, self.fit, self._resizing)
        if stored.shape[1:] == [self.size, self.size, CHANNELS]:
            return tf.cast(stored, tf.uint8)
        if self.fit == "stretch":
            return pixels.resize(stored, self._resizing)
        return pixels.cut(stored, crops.whole(_shapes(stored), self.fit), _no_flips(stored), self._resizing)

    def augment(self, decoded: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        """Augments decoded images; a crop is enlarged from the pixels there are."""
        boxes = self._boxes(_shapes(decoded), seeds)
        return self._vary(pixels.cut(decoded, boxes, self._flips(seeds), self._resizing), seeds)

    def augmented(self, stored: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        """Decodes only the crop of each image, and augments it.

        By default images are not flipped: writing has another meaning in a mirror.
        """
        if stored.dtype != tf.string:
            return self.augment(stored, seeds)
        decoded = pixels.read(stored, lambda shapes: self._boxes(shapes, seeds), self._flips(seeds), self._resizing)
        return self._vary(decoded, seeds)

    def mix(self, images: tf.Tensor, labels: tf.Tensor, seeds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mixes each image and its label with its neighbour's, by mixup or cutmix."""
        return patches.mix(images, labels, seeds, self.augmentation)

    def finish(self, decoded: tf.Tensor) -> tf.Tensor:
        """Returns bytes, which the model's first layer scales, or scales them here."""
        if self.normalise == "model":
            return decoded
        mean, deviation = (tf.constant(value, tf.float32) for value in _SCALES[self.normalise])
        return (tf.cast(decoded, tf.float32) - mean) / deviation

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input."""
        dtype = "uint8" if self.normalise == "model" else "float32"
        return keras.Input([self.size, self.size, CHANNELS], dtype=dtype, name=name)

    @property
    def _resizing(self) -> pixels.Resizing:
        return pixels.Resizing(self.size, self.antialias, self.dct_shrink, self.nice)

    def _boxes(self, shapes: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        drawn = randomness.uniform(seeds, crops.NUMBERS, _CROP)
        return crops.boxes(shapes, drawn, self.size, self.fit, self.augmentation)

    def _flips(self, seeds: tf.Tensor) -> tf.Tensor:
        return randomness.uniform(seeds, 2, _FLIP)[:, 0] < self.augmentation.flip

    def _vary(self, images: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        """Augments small images all at once, and large ones one by one.

        A loop costs forty microseconds per image; large intermediate results cost more than that.
        """
        steps = list(self._steps(seeds))
        if not steps:
            return images
        if self.size <= _WHOLE_BATCH:
            for step in steps:
                images = step.batch(images, *step.drawn)
            return images

        def one(item: tuple[tf.Tensor, ...]) -> tf.Tensor:
            image, *drawn = item
            for step, numbers in zip(steps, drawn, strict=True):
                image = step.one(image, *numbers)
            return image

        signature = tf.TensorSpec([self.size, self.size, CHANNELS], tf.uint8)
        return tf.map_fn(one, (images, *(step.drawn for step in steps)), fn_output_signature=signature)

    def _steps(self, seeds: tf.Tensor) -> Iterator[AugmentationStep]:
        """Yields the augmentation after the crop, with its random numbers."""
        augmentation = self.augmentation
        if augmentation.crop == "shift":
            yield AugmentationStep(crops.shifted_batch, (randomness.uniform(seeds, 2, _SHIFT),), crops.shifted)
        if augmentation.flip_vertical:
            flips = randomness.uniform(seeds, 2, _FLIP)[:, 1] < augmentation.flip_vertical
            yield AugmentationStep(crops.flipped, (flips,))
        if colors.is_varied(augmentation):
            drawn = randomness.uniform(seeds, colors.NUMBERS, _COLOR)
            yield AugmentationStep(lambda images, drawn: colors.vary(images, drawn, augmentation), (drawn,))
        if augmentation.erase:
            drawn = randomness.uniform(seeds, patches.NUMBERS, _ERASE)
            yield AugmentationStep(lambda images, drawn: patches.erase(images, drawn, augmentation), (drawn,))


def from_columns(
    columns: Sequence[Column], fitted: FittedGraph, settings: Input, data: DataShape
) -> dict[str, ImageFeature]:
    """Returns one feature per column."""
    del fitted
    return {column.name: ImageFeature.of(settings, data) for column in columns}


def _shapes(images: tf.Tensor) -> tf.Tensor:
    """Returns height and width [n, 2] of a batch of images of equal size."""
    shape = tf.shape(images)
    return tf.tile(shape[tf.newaxis, 1:3], [shape[0], 1])


def _no_flips(batch: tf.Tensor) -> tf.Tensor:
    return tf.zeros(tf.shape(batch)[:1], tf.bool)
