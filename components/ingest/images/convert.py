"""GIF, WebP, BMP and TIFF: TensorFlow decodes them not at all or otherwise than a viewer, so each is drawn anew.

header ─► size, tiles ─► first frame ─► on white paper ─► upright ─► PNG
"""

import io
import warnings
from collections.abc import Callable, Mapping
from typing import Final

from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from components.ingest.images.limits import CheckedImage, Handling, ImageLimits, ImageRejected, check_size
from components.ingest.images.orientation import ORIENTATION_TAG, TURNS, UPRIGHT, read_orientation
from components.ingest.images.redraw import ALPHA, FIRST_FRAME, ROTATED, load, on_white, store

# Our own limit stands in for Pillow's; and a damaged TIFF tag, if it matters, also ends in an exception.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.TiffImagePlugin")

_OPENERS: Final[Mapping[str, Callable[[io.BytesIO], ImageFile.ImageFile]]] = {
    "GIF": GifImageFile,
    "WEBP": WebPImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
}
_TILE_WIDTH, _TILE_HEIGHT = 322, 323


def convert(content: bytes, source_format: str, limits: ImageLimits, handling: Handling) -> CheckedImage:
    """Turns the first frame into a PNG, or what else was asked for."""
    image = _OPENERS[source_format](io.BytesIO(content))
    check_size(*image.size, limits)
    changed = [source_format]
    changed += [FIRST_FRAME] if getattr(image, "is_animated", False) else []
    if isinstance(image, TiffImageFile):
        _check_tiles(image, limits)
    orientation = _orientation(image)
    changed += [ROTATED] if orientation != UPRIGHT else []
    load(image)
    paper = on_white(image)
    changed += [ALPHA] if paper else []
    # Pillow turns a TIFF while it loads it, and no other format.
    turned = UPRIGHT if source_format == "TIFF" else orientation
    return store(paper or image, source_format, turned, changed, handling)


def _orientation(image: ImageFile.ImageFile) -> int:
    """Returns how the image is stored; a TIFF tells it by a tag of its own."""
    if not isinstance(image, TiffImageFile):
        return read_orientation(image.info.get("exif", b""), image.info.get("xmp", b""))
    value = image.tag_v2.get(ORIENTATION_TAG)
    return value if value in TURNS else UPRIGHT


def _check_tiles(image: TiffImageFile, limits: ImageLimits) -> None:
    """Rejects tiles that are larger than any image may be: they are decoded whole."""
    width, height = image.tag_v2.get(_TILE_WIDTH, 1), image.tag_v2.get(_TILE_HEIGHT, 1)
    if width * height > limits.max_pixels:
        raise ImageRejected(f"TIFF tiles of {width} x {height}, expected at most {limits.max_pixels:,} pixels")
