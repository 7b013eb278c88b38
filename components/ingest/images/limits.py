"""Limits on the size of one image, how it is handled, and the two results: `CheckedImage` or `ImageRejected`."""

from dataclasses import dataclass, field
from typing import Final, Literal

# TensorFlow decodes at most 2**29 bytes of pixels; its libpng, at most a million pixels per side.
_TENSORFLOW_PIXELS: Final = 2**29 // 3
_LIBPNG_SIDE: Final = 1_000_000
RAW: Final = ("camera raw", "darktable-cli FILE FILE.jpg")  # DNG, NEF and ARW are TIFF files: `convert` finds them


class ImageRejected(ValueError):
    """The bytes are not an image to train on; the message is the reason, in one line.

    Attributes:
        at: Offset of the damage in bytes, if known.
    """

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason)
        self.at = at


def unsupported(name: str, command: str) -> str:
    """Returns why an image of a format that is not supported is rejected, and a command that converts it."""
    return f"{name}, which is not supported: convert it to JPEG or PNG first, for example with {command}"


@dataclass(frozen=True)
class ImageLimits:
    """Maximum size of one image.

    Attributes:
        max_pixels: Maximum width times height; the default decodes to 150 MB.
        max_bytes: Maximum size of the file.
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
    """How much of an image is read, and in which format it is stored.

    Attributes:
        full: Read the whole file; otherwise the header alone, unless the image must be re-encoded.
        store: "original" keeps the bytes, "jpeg" shrinks large images, "raw" stores pixels (`image_format.py`).
        side: Maximum shorter side of a re-encoded image, in pixels.
        quality: JPEG quality of a re-encoded image.
    """

    full: bool = True
    store: Literal["original", "jpeg", "raw"] = "original"
    side: int = 256
    quality: int = 90

    @property
    def decodes(self) -> bool:
        """Whether the coded data of most images is decoded."""
        return self.full or self.store != "original"

    def reencodes(self, width: int, height: int) -> bool:
        """Whether an image that needs no correction is re-encoded."""
        return self.store == "raw" or (self.store == "jpeg" and min(width, height) > self.side)


@dataclass(frozen=True)
class CheckedImage:
    """An image that TensorFlow decodes to what a viewer shows.

    Attributes:
        content: JPEG, PNG or raw pixels (PPM); the same bytes as the input if nothing had to change.
        width: Width in pixels after rotation.
        height: Height in pixels after rotation.
        source_format: Format of the input, such as JPEG or WEBP.
        changed: Why it was re-encoded, such as "EXIF rotation" or "GIF, first frame"; empty if it was not.
        perceptual_hash: 64-bit hash for near duplicates; None if the image was not decoded or has too little detail.
    """

    content: bytes
    width: int
    height: int
    source_format: str
    changed: str
    perceptual_hash: int | None = field(default=None, compare=False)  # determined by `content`


def check_size(width: int, height: int, limits: ImageLimits) -> None:
    """Rejects a size that is zero, above the limit, or more than TensorFlow decodes."""
    if width < 1 or height < 1:
        raise ImageRejected(f"size {width} x {height}, expected at least 1 x 1")
    if width * height > limits.max_pixels:
        raise ImageRejected(
            f"size {width} x {height} is {width * height:,} pixels, expected at most {limits.max_pixels:,} (max_pixels)"
        )
    if max(width, height) > _LIBPNG_SIDE:
        raise ImageRejected(f"size {width} x {height}, expected at most {_LIBPNG_SIDE:,} per side")
