"""Load the native decoding ops as Python functions, or say why they are missing.

    load() ─► Ops: shapes, decode_crop_resize
          └─► None; why_not() returns the reason, and TensorFlow's own ops do the work

A missing library is built for the installed versions. TensorFlow is imported on the first call, not before.
PENSTOCK_NATIVE=0 turns the ops off.
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

OTHER, JPEG, RAW = 0, 1, 2  # image formats as `shapes` returns them
_SIDE = 40  # of the test image, in pixels: several JPEG blocks and a partial one


@dataclass(frozen=True)
class DecodeOptions:
    """Options of the decoding op.

    Attributes:
        antialias: Smooth images that shrink, as `tf.image.resize` does with the same flag.
        shrink_in_dct: With antialias, decode a box of three or more times the output size at 1/2, 1/4 or 1/8: faster,
            and no longer within one rounding of TensorFlow's pixels.
        max_pixels: Maximum of a whole image; larger ones are rejected by their header.
        nice: Niceness of the thread that decodes. It stays with the thread, so use private threads only.
    """

    antialias: bool = False
    shrink_in_dct: bool = False
    max_pixels: int = 50_000_000
    nice: int = 0


DEFAULT: Final = DecodeOptions()


@dataclass(frozen=True)
class Ops:
    """The ops of a loaded library; each takes a whole batch."""

    module: Any
    key: str

    def shapes(self, contents: "tf.Tensor") -> "tf.Tensor":
        """Reads image sizes from headers.

        Args:
            contents: string [n], whole files.

        Returns:
            int32 [n, 3]: height, width and format. The format is JPEG or RAW if the op can decode the image, else
            OTHER; height and width are 0 where the header does not give them easily.
        """
        return self.module.penstock_shapes(contents)

    def decode_crop_resize(
        self,
        contents: "tf.Tensor",
        boxes: "tf.Tensor",
        flips: "tf.Tensor",
        size: tuple[int, int],
        options: DecodeOptions = DEFAULT,
    ) -> tuple["tf.Tensor", "tf.Tensor"]:
        """Decodes a box of each image and resizes it.

        Args:
            contents: string [n], whole files of format JPEG or RAW.
            boxes: int32 [n, 4]: top, left, height, width in pixels.
            flips: bool [n], whether to mirror left to right.
            size: height and width of the result.
            options: how to decode.

        Returns:
            uint8 [n, height, width, 3], black where decoding failed; and string [n]: why it failed, or empty.
        """
        height, width = size
        decoded: tuple[tf.Tensor, tf.Tensor] = self.module.penstock_decode_crop_resize(
            contents, boxes, flips, height=height, width=width, **asdict(options)
        )
        return decoded


def load() -> Ops | None:
    """Returns the ops, or None if they are not available. Never raises; the result is cached."""
    return None if _is_off() else _load()[0]


def why_not() -> str:
    """Returns why `load` returns None; empty if it does not."""
    return f"turned off by {build.SWITCH}=0" if _is_off() else _load()[1]


def identity() -> str:
    """Returns the decoder that training uses, as one string to store with its results."""
    ops = load()
    return f"native:{ops.key}" if ops else f"plain: {why_not()}"


def open_library(library: Path) -> Ops:
    """Loads a library and tests it on a small image.

    Raises:
        build.NotBuilt: It does not load, or its pixels differ from TensorFlow's.
    """
    import tensorflow as tf

    try:
        ops = Ops(tf.load_op_library(str(library)), library.parent.name)
        # init_scope: the test must run even when this is called while a graph is traced.
        with tf.init_scope(), tf.device("CPU"):
            _check(ops)
    except (tf.errors.OpError, OSError) as error:
        raise build.NotBuilt(f"{library} does not load: {str(error).splitlines()[0]}") from error
    return ops


@lru_cache(maxsize=1)
def _load() -> tuple[Ops | None, str]:
    try:
        return open_library(build.ensure(build.DECODE)), ""
    except build.NotBuilt as error:
        return None, str(error)


def _is_off() -> bool:
    return os.environ.get(build.SWITCH) == "0"


def _check(ops: Ops) -> None:
    """Compares a box of a small image with TensorFlow's decoder."""
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
        raise build.NotBuilt("its pixels differ from those of TensorFlow's decoder")


def main() -> int:
    """Tests the library named on the command line, in a process that may crash."""
    try:
        open_library(Path(sys.argv[1]))
    except build.NotBuilt as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
