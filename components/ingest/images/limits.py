"""What one image may cost, how it is handled, and how that ends: in a `CheckedImage` or in `ImageRejected`."""

from dataclasses import dataclass, field
from typing import Final, Literal

# TensorFlow decodes at most 2**29 bytes of pixels; the libpng in it, at most a million pixels a side.
_TENSORFLOW_PIXELS: Final = 2**29 // 3
_LIBPNG_SIDE: Final = 1_000_000


class ImageRejected(ValueError):
    """These bytes are not an image to train on; the message is the reason, in one line.

    Attributes:
        at: The byte where the damage is, if that is known.
    """

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason)
        self.at = at


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
class Handling:
    """How far an image is read, and as what it is stored.

    Attributes:
        full: All of it is read; otherwise the header alone, unless the image must be encoded anew.
        store: "original" keeps the bytes, "jpeg" reduces what is large, "raw" stores pixels (`stored.py`).
        side: Shorter side of what is stored anew, at most.
        quality: Of what is stored anew as JPEG.
    """

    full: bool = True
    store: Literal["original", "jpeg", "raw"] = "original"
    side: int = 256
    quality: int = 90

    @property
    def decodes(self) -> bool:
        """Whether all of a image is read of most of them."""
        return self.full or self.store != "original"

    def redraws(self, width: int, height: int) -> bool:
        """Whether a image that could stay as it is must be stored anew all the same."""
        return self.store == "raw" or (self.store == "jpeg" and min(width, height) > self.side)


@dataclass(frozen=True)
class CheckedImage:
    """An image that TensorFlow decodes to what a person sees.

    Attributes:
        content: JPEG or PNG, or pixels if that was asked for; the very input when nothing had to change.
        width: In pixels, as a person sees it, so after rotation.
        height: In pixels, as a person sees it.
        source_format: What the input was: JPEG, PNG, GIF, WEBP, BMP or TIFF.
        changed: Why it was encoded anew, such as "EXIF rotation" or "GIF, first frame"; empty when it was not.
        look: What it looks like, in 64 bits (`looks.py`); None when it was not decoded or is too plain.
    """

    content: bytes
    width: int
    height: int
    source_format: str
    changed: str
    look: int | None = field(default=None, compare=False)  # follows from the rest


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
