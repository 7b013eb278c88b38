"""What one image may cost, and the two ways in which its check ends: `CheckedImage` or `ImageRejected`."""

from dataclasses import dataclass
from typing import Final

# TensorFlow decodes at most 2**29 bytes of pixels; the libpng in it, at most a million pixels a side.
_TENSORFLOW_PIXELS: Final = 2**29 // 3
_LIBPNG_SIDE: Final = 1_000_000


class ImageRejected(ValueError):
    """These bytes are not an image to train on; the message is the reason, in one line."""


@dataclass(frozen=True)
class ImageLimits:
    """What one image may cost.

    Attributes:
        max_pixels: Width times height; the default decodes to 150 MB.
        max_bytes: Size of the file.
    """

    max_pixels: int = 50_000_000
    max_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        if not 1 <= self.max_pixels <= _TENSORFLOW_PIXELS:
            raise ValueError(
                f"max_pixels is {self.max_pixels}, expected 1 to {_TENSORFLOW_PIXELS}, the most TensorFlow decodes"
            )
        if self.max_bytes < 1:
            raise ValueError(f"max_bytes is {self.max_bytes}, expected at least 1")


@dataclass(frozen=True)
class CheckedImage:
    """An image that TensorFlow decodes to what a person sees.

    Attributes:
        content: JPEG or PNG, ready to store; the very input when nothing had to change.
        width: In pixels, as a person sees it, so after rotation.
        height: In pixels, as a person sees it.
        source_format: What the input was: JPEG, PNG, GIF, WEBP, BMP or TIFF.
        changed: Why it was encoded anew, such as "EXIF rotation" or "GIF, first frame"; empty when it was not.
    """

    content: bytes
    width: int
    height: int
    source_format: str
    changed: str


def check_size(width: int, height: int, limits: ImageLimits) -> None:
    """Rejects a size that is empty, above the limit or beyond TensorFlow."""
    if width < 1 or height < 1:
        raise ImageRejected(f"size {width} x {height}, expected at least 1 x 1")
    if width * height > limits.max_pixels:
        raise ImageRejected(
            f"size {width} x {height} is {width * height:,} pixels, expected at most {limits.max_pixels:,} (max_pixels)"
        )
    if max(width, height) > _LIBPNG_SIDE:
        raise ImageRejected(f"size {width} x {height}, expected at most {_LIBPNG_SIDE:,} a side")
