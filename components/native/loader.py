"""The native ops as Python functions, or the reason why there are none.

    load() ─► Ops: shapes, decode_crop_resize, try_decode_crop_resize
          └─► None; why_not() tells the reason, and the plain path does the work

The library is built when it is missing, for the versions that are installed now. TensorFlow is imported on the first
call and not before. PENSTOCK_NATIVE=0 turns the ops off.
"""

import os
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from components.native import build

if TYPE_CHECKING:
    import tensorflow as tf

OTHER, JPEG, RAW = 0, 1, 2  # formats, as `shapes` tells them
_SIDE = 40  # of the image that is decoded before any other: several blocks, and a rest


@dataclass(frozen=True)
class How:
    """What may be chosen when images are decoded.

    Attributes:
        antialias: Whether to smooth what shrinks, as `tf.image.resize` does with the same flag.
        shrink_in_dct: With antialias, whether a box of three times the size and more may be decoded at 1/2, 1/4 or 1/8:
            faster, and no longer within a rounding of TensorFlow's pixels.
        max_pixels: Of a whole image; larger ones are refused by their header.
        parallel: Whether the images of one batch are shared out among TensorFlow's threads.
        nice: How far the thread that decodes steps back behind others, for good: for threads of one's own alone.
    """

    antialias: bool = False
    shrink_in_dct: bool = False
    max_pixels: int = 50_000_000
    parallel: bool = True
    nice: int = 0


DEFAULT: Final = How()


@dataclass(frozen=True)
class Ops:
    """What the library does, a batch at a time."""

    module: Any
    key: str

    def shapes(self, contents: "tf.Tensor") -> "tf.Tensor":
        """Reads headers alone.

        Args:
            contents: string [n], whole files.

        Returns:
            int32 [n, 3]: height, width and format. The format is JPEG or RAW for what is decoded here, else OTHER;
            height and width are then 0 where they were not easily found.
        """
        return self.module.penstock_shapes(contents)

    def decode_crop_resize(
        self,
        contents: "tf.Tensor",
        boxes: "tf.Tensor",
        flips: "tf.Tensor",
        size: tuple[int, int],
        how: How = DEFAULT,
    ) -> "tf.Tensor":
        """Decodes a box of each image to pixels of one size.

        Args:
            contents: string [n], whole files of the formats JPEG and RAW.
            boxes: int32 [n, 4]: top, left, height, width in pixels.
            flips: bool [n], whether to mirror.
            size: height and width of the result.
            how: What else there is to choose.

        Returns:
            uint8 [n, height, width, 3].

        Raises:
            tf.errors.InvalidArgumentError: A record cannot be decoded; it says which, by its place in the batch.
        """
        pixels, _ = self._decode(contents, boxes, flips, size, how, strict=True)
        return pixels

    def try_decode_crop_resize(
        self,
        contents: "tf.Tensor",
        boxes: "tf.Tensor",
        flips: "tf.Tensor",
        size: tuple[int, int],
        how: How = DEFAULT,
    ) -> tuple["tf.Tensor", "tf.Tensor"]:
        """Decodes as `decode_crop_resize` does, and reports what cannot be decoded instead of raising.

        Returns:
            The pixels, black where there are none, and string [n]: what is wrong with a record, or nothing.
        """
        return self._decode(contents, boxes, flips, size, how, strict=False)

    def _decode(
        self,
        contents: "tf.Tensor",
        boxes: "tf.Tensor",
        flips: "tf.Tensor",
        size: tuple[int, int],
        how: How,
        *,
        strict: bool,
    ) -> tuple["tf.Tensor", "tf.Tensor"]:
        height, width = size
        decoded: tuple[tf.Tensor, tf.Tensor] = self.module.penstock_decode_crop_resize(
            contents, boxes, flips, height=height, width=width, strict=strict, **asdict(how)
        )
        return decoded


def load() -> Ops | None:
    """Returns the ops, or None where they cannot be had. Never raises; later calls cost nothing."""
    return None if _is_off() else _load()[0]


def why_not() -> str:
    """Returns why `load` gives None, or nothing when it does not."""
    return f"turned off by {build.SWITCH}=0" if _is_off() else _load()[1]


def identity() -> str:
    """Returns what decodes the images of a training, in a word that may be kept with its result."""
    ops = load()
    return f"native:{ops.key}" if ops else f"plain: {why_not()}"


def open_library(library: Path) -> Ops:
    """Loads a library and lets it decode a image.

    Raises:
        build.NotBuilt: It does not load, or its pixels are not TensorFlow's.
    """
    import tensorflow as tf

    try:
        ops = Ops(tf.load_op_library(str(library)), library.parent.name)
        # Called while a graph is traced, the test must still run at once; a GPU has no part in it.
        with tf.init_scope(), tf.device("CPU"):
            _check(ops)
    except (tf.errors.OpError, OSError) as error:
        raise build.NotBuilt(f"{library} does not load: {str(error).splitlines()[0]}") from error
    return ops


@lru_cache(maxsize=1)
def _load() -> tuple[Ops | None, str]:
    try:
        return open_library(build.ensure()), ""
    except build.NotBuilt as error:
        return None, str(error)


def _is_off() -> bool:
    return os.environ.get(build.SWITCH) == "0"


def _check(ops: Ops) -> None:
    """Compares a box of a small image with what TensorFlow makes of it."""
    import tensorflow as tf

    steps = tf.range(_SIDE)
    pixels = tf.stack(
        [steps[:, None] * 6 + steps * 0, steps[:, None] * 0 + steps * 6, (steps[:, None] * steps) % 256], 2
    )
    content = tf.io.encode_jpeg(tf.cast(pixels, tf.uint8))
    box, size = [5, 19, 30, 20], (16, 16)
    found = tf.cast(ops.decode_crop_resize([content], [box], [False], size)[0], tf.float32)
    expected = tf.image.resize(tf.io.decode_and_crop_jpeg(content, box, channels=3), size)
    shape = ops.shapes([content]).numpy().tolist()
    if shape != [[_SIDE, _SIDE, JPEG]] or tf.reduce_max(tf.abs(found - expected)) > 1:
        raise build.NotBuilt("its pixels are not those of TensorFlow's own decoder")


def main() -> int:
    """Tries the library that is named on the command line; this is the process that may crash."""
    try:
        open_library(Path(sys.argv[1]))
    except build.NotBuilt as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
