"""Image ops of the peers: libjpeg-turbo by simplejpeg, resize by OpenCV; the fastest in Python."""

from random import Random

import cv2  # type: ignore[import-not-found,unused-ignore]
import numpy as np
import numpy.typing as npt
import simplejpeg  # type: ignore[import-not-found,unused-ignore]

from benchmarks.contenders import boxes

SIZE = 224
Pixels = npt.NDArray[np.uint8]

cv2.setNumThreads(0)  # workers are processes or threads already


def full(content: bytes, random: Random) -> Pixels:
    """Decodes all, resizes, flips half of them."""
    pixels = simplejpeg.decode_jpeg(content)
    return _flip(cv2.resize(pixels, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR), random)


def crop(content: bytes, random: Random) -> Pixels:
    """Decodes all (simplejpeg has no crop), cuts, resizes, flips half of them."""
    pixels = simplejpeg.decode_jpeg(content)
    top, left, height, width = boxes.draw(pixels.shape[0], pixels.shape[1], random)
    cut = pixels[top : top + height, left : left + width]
    return _flip(cv2.resize(cut, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR), random)


def _flip(pixels: Pixels, random: Random) -> Pixels:
    return np.ascontiguousarray(pixels[:, ::-1]) if random.random() < 0.5 else pixels  # noqa: PLR2004 - a coin
