"""What peers do to one picture: libjpeg-turbo through simplejpeg, OpenCV to resize; the fastest that Python has.

The crop is drawn as TensorFlow and torchvision draw it: area 0.08 to 1, ratio 3/4 to 4/3, ten attempts, else all.
"""

import math
from random import Random

import cv2  # type: ignore[import-not-found,unused-ignore]
import numpy as np
import numpy.typing as npt
import simplejpeg  # type: ignore[import-not-found,unused-ignore]

SIZE = 224
_ATTEMPTS = 10
Pixels = npt.NDArray[np.uint8]

cv2.setNumThreads(0)  # workers are processes or threads already


def full(content: bytes, random: Random) -> Pixels:
    """Decodes all, resizes, flips half of them."""
    pixels = simplejpeg.decode_jpeg(content)
    return _flip(cv2.resize(pixels, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR), random)


def crop(content: bytes, random: Random) -> Pixels:
    """Decodes all (simplejpeg knows no crop), cuts, resizes, flips half of them."""
    pixels = simplejpeg.decode_jpeg(content)
    top, left, height, width = box(pixels.shape[0], pixels.shape[1], random)
    cut = pixels[top : top + height, left : left + width]
    return _flip(cv2.resize(cut, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR), random)


def box(height: int, width: int, random: Random) -> tuple[int, int, int, int]:
    """Draws top, left, height and width of a random resized crop."""
    for _ in range(_ATTEMPTS):
        area = height * width * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    return 0, 0, height, width


def _flip(pixels: Pixels, random: Random) -> Pixels:
    return np.ascontiguousarray(pixels[:, ::-1]) if random.random() < 0.5 else pixels  # noqa: PLR2004 - a coin
