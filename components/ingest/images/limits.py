"""The two results of a check, `CheckedImage` or `ImageRejected`, and the limit on the size of one image."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

_LIBPNG_SIDE: Final = 1_000_000  # pixels: the most that libpng, and so TensorFlow, decodes
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


def check_size(width: int, height: int, settings: "Ingest") -> None:
    """Rejects a size that is zero, above the limit, or more than TensorFlow decodes."""
    if width < 1 or height < 1:
        raise ImageRejected(f"size {width} x {height}, expected at least 1 x 1")
    if width * height > settings.max_pixels:
        raise ImageRejected(
            f"size {width} x {height} is {width * height:,} pixels, "
            f"expected at most {settings.max_pixels:,} (max_pixels)"
        )
    if max(width, height) > _LIBPNG_SIDE:
        raise ImageRejected(f"size {width} x {height}, expected at most {_LIBPNG_SIDE:,} per side")
