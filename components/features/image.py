"""Images: compressed bytes in the record, uint8 pixels on the device."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import keras
import tensorflow as tf

from components.features import DataShape, Fitted, colors, crops, patches, randomness
from components.features import pixels as images
from components.native.decode import loader
from components.records.roles import Column
from components.settings.input import Augmentation, Input

CHANNELS = images.CHANNELS
_SMALLEST, _LARGEST = 32, 160  # bounds of a side that is taken from the data
_WHOLE_BATCH = 64  # side up to which a batch is varied at once: what is made in between fits into the cache
_CROP, _SHIFT, _FLIP, _COLOUR, _ERASE = range(5)  # what numbers are drawn for: a new one changes none of the others
_SCALES = {  # of bytes: (mean, deviation) a channel
    "unit": (0.0, 255.0),
    "symmetric": (127.5, 127.5),
    "imagenet": ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375]),
}


@dataclass(frozen=True)
class Step:
    """What is done to images, to one or to all of a batch, with the same result."""

    one: Callable[..., tf.Tensor]  # image, numbers …
    all: Callable[..., tf.Tensor]  # images, numbers …
    drawn: tuple[tf.Tensor, ...]  # the numbers, [n, …] each


@dataclass(frozen=True)
class ImageFeature:
    """A square RGB image of `size` pixels a side."""

    size: int
    fit: Literal["stretch", "center"] = "stretch"
    antialias: bool = True
    dct_shrink: bool = False
    normalise: Literal["model", "unit", "symmetric", "imagenet"] = "model"
    augmentation: Augmentation = field(default_factory=Augmentation)
    nice: int = field(default=0, compare=False)  # how far threads that decode step back; it changes no pixel

    is_ragged = False
    is_costly = True

    @classmethod
    def of(cls, settings: Input, data: DataShape) -> "ImageFeature":
        """Returns the feature at the size that is set, or else at the data's own, within reason."""
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
        """Which decoder training uses."""
        return loader.identity()

    @property
    def decoded_bytes(self) -> int:
        """Pixels as bytes, twice while a batch is put together; and as floats if they are scaled here."""
        return self.size**2 * CHANNELS * (2 if self.normalise == "model" else 6)

    def spec(self) -> tf.io.FixedLenFeature:
        """One string: JPEG, PNG or raw, as ingest checked it."""
        return tf.io.FixedLenFeature([], tf.string)

    def decode(self, stored: tf.Tensor) -> tf.Tensor:
        """Turns encoded bytes, or pixels of any one size, into uint8 pixels of the model's size."""
        if stored.dtype == tf.string:
            return images.whole(stored, self.fit, self._how)
        if stored.shape[1:] == [self.size, self.size, CHANNELS]:
            return tf.cast(stored, tf.uint8)
        if self.fit == "stretch":
            return images.resize(stored, self._how)
        return images.cut(stored, crops.whole(_shapes(stored), self.fit), _none(stored), self._how)

    def augment(self, decoded: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        """Varies images that were decoded already: a part of one has no more pixels than it had before."""
        boxes = self._boxes(_shapes(decoded), seeds)
        return self._vary(images.cut(decoded, boxes, self._flips(seeds), self._how), seeds)

    def augmented(self, stored: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        """Decodes the part that is shown and nothing else, and varies it.

        By default there is no mirror: what a person writes or reads means something else in a mirror.
        """
        if stored.dtype != tf.string:
            return self.augment(stored, seeds)
        pixels = images.read(stored, lambda shapes: self._boxes(shapes, seeds), self._flips(seeds), self._how)
        return self._vary(pixels, seeds)

    def mix(self, pixels: tf.Tensor, shares: tf.Tensor, seeds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mixes each image and its label with its neighbour's, by mixup or cutmix."""
        return patches.mix(pixels, shares, seeds, self.augmentation)

    def finish(self, decoded: tf.Tensor) -> tf.Tensor:
        """Leaves bytes to the model's first layer, or scales them here."""
        if self.normalise == "model":
            return decoded
        mean, deviation = (tf.constant(value, tf.float32) for value in _SCALES[self.normalise])
        return (tf.cast(decoded, tf.float32) - mean) / deviation

    def keras_input(self, name: str) -> keras.KerasTensor:
        """Declares the model's input."""
        dtype = "uint8" if self.normalise == "model" else "float32"
        return keras.Input([self.size, self.size, CHANNELS], dtype=dtype, name=name)

    @property
    def _how(self) -> images.How:
        return images.How(self.size, self.antialias, self.dct_shrink, self.nice)

    def _boxes(self, shapes: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        drawn = randomness.uniform(seeds, crops.NUMBERS, _CROP)
        return crops.boxes(shapes, drawn, self.size, self.fit, self.augmentation)

    def _flips(self, seeds: tf.Tensor) -> tf.Tensor:
        return randomness.uniform(seeds, 2, _FLIP)[:, 0] < self.augmentation.flip

    def _vary(self, pixels: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        """Varies small images all at once, and large ones one after another.

        A loop costs some forty microseconds a image, and large intermediate results cost more.
        """
        steps = list(self._steps(seeds))
        if not steps:
            return pixels
        if self.size <= _WHOLE_BATCH:
            for step in steps:
                pixels = step.all(pixels, *step.drawn)
            return pixels

        def one(item: tuple[tf.Tensor, ...]) -> tf.Tensor:
            image, *drawn = item
            for step, numbers in zip(steps, drawn, strict=True):
                image = step.one(image, *numbers)
            return image

        signature = tf.TensorSpec([self.size, self.size, CHANNELS], tf.uint8)
        return tf.map_fn(one, (pixels, *(step.drawn for step in steps)), fn_output_signature=signature)

    def _steps(self, seeds: tf.Tensor) -> Iterator[Step]:
        """Yields what is done to images, with the numbers that decide."""
        how = self.augmentation
        shift = randomness.uniform(seeds, 2, _SHIFT) if how.crop == "shift" else None
        turn = randomness.uniform(seeds, 2, _FLIP)[:, 1] < how.flip_vertical if how.flip_vertical else None
        if shift is not None or turn is not None:
            yield _moves(shift, turn)
        if colors.is_varied(how):
            drawn = randomness.uniform(seeds, colors.NUMBERS, _COLOUR)
            yield Step(
                lambda image, drawn: colors.vary(image[tf.newaxis], drawn[tf.newaxis], how)[0],
                lambda pixels, drawn: colors.vary(pixels, drawn, how),
                (drawn,),
            )
        if how.erase:
            drawn = randomness.uniform(seeds, patches.NUMBERS, _ERASE)
            yield Step(
                lambda image, drawn: patches.erase(image, drawn, how),
                lambda pixels, drawn: patches.erase_all(pixels, drawn, how),
                (drawn,),
            )


def from_columns(
    columns: Sequence[Column], fitted: Fitted, settings: Input, data: DataShape
) -> dict[str, ImageFeature]:
    """Returns a feature for every image of a record."""
    del fitted
    return {column.name: ImageFeature.of(settings, data) for column in columns}


def _moves(shift: tf.Tensor | None, turn: tf.Tensor | None) -> Step:
    """Shifts, and then turns upside down."""
    given = [numbers is not None for numbers in (shift, turn)]

    def apart(numbers: Sequence[tf.Tensor]) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        rest = iter(numbers)
        first, second = (next(rest) if is_given else None for is_given in given)
        return first, second

    def one(image: tf.Tensor, *numbers: tf.Tensor) -> tf.Tensor:
        drawn, flip = apart(numbers)
        moved = image if drawn is None else crops.shifted(image, drawn)
        return moved if flip is None else tf.cond(flip, lambda: tf.reverse(moved, [0]), lambda: moved)

    def together(pixels: tf.Tensor, *numbers: tf.Tensor) -> tf.Tensor:
        return crops.moved_rows(pixels, *apart(numbers))

    return Step(one, together, tuple(numbers for numbers in (shift, turn) if numbers is not None))


def _shapes(pixels: tf.Tensor) -> tf.Tensor:
    """Returns height and width of each image of a batch of one shape."""
    shape = tf.shape(pixels)
    return tf.tile(shape[tf.newaxis, 1:3], [shape[0], 1])


def _none(batch: tf.Tensor) -> tf.Tensor:
    return tf.zeros(tf.shape(batch)[:1], tf.bool)
