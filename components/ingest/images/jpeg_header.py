"""JPEG of which the header alone is read: kept as it is, if that says all that there is to know.

No decoder is imported: so a process that reads headers starts sooner.
"""

from typing import Final

from components.ingest.images.limits import CheckedImage, Handling, ImageLimits, ImageRejected, check_size
from components.native import checker

# Huffman codes spend at least one bit on a block of 64 pixels: 512 pixels a byte; a flat gray image has 256.
_PIXELS_A_BYTE: Final = 2_000


def keep(content: bytes, limits: ImageLimits, handling: Handling) -> CheckedImage | None:
    """Returns a image that may stay as it is, or None if it takes more than a regular header to tell."""
    outline = checker.regular_outline(content)
    if outline is None or handling.redraws(outline.width, outline.height):
        return None
    check_size(outline.width, outline.height, limits)
    check_data(outline.width, outline.height, outline.end - outline.data)
    return CheckedImage(content, outline.width, outline.height, "JPEG", "")


def check_data(width: int, height: int, data_bytes: int) -> None:
    """Rejects a header that announces more than the data behind it can hold."""
    if width * height > data_bytes * _PIXELS_A_BYTE:
        raise ImageRejected(
            f"JPEG header says {width} x {height} but {data_bytes:,} bytes of data follow, "
            f"expected at least one for {_PIXELS_A_BYTE:,} pixels"
        )
