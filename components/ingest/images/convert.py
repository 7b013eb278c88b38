"""GIF, WebP, BMP and TIFF: TensorFlow cannot decode them, or not as a viewer does, so they become PNG.

header ─► size, tiles ─► first frame ─► on a white background ─► upright ─► PNG
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
from components.ingest.images.reencode import ALPHA, FIRST_FRAME, ROTATED, load, on_white, store

# `check_size` replaces Pillow's limit; a damaged TIFF tag that matters raises an exception as well.
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
    """Converts the first frame to PNG, or to the format in `handling`."""
    image = _OPENERS[source_format](io.BytesIO(content))
    check_size(*image.size, limits)
    changed = [source_format]
    changed += [FIRST_FRAME] if getattr(image, "is_animated", False) else []
    if isinstance(image, TiffImageFile):
        _check_tiles(image, limits)
    orientation = _orientation(image)
    changed += [ROTATED] if orientation != UPRIGHT else []
    load(image)
    opaque = on_white(image)
    changed += [ALPHA] if opaque else []
    # Pillow rotates a TIFF while loading it, and no other format.
    remaining = UPRIGHT if source_format == "TIFF" else orientation
    return store(opaque or image, source_format, remaining, changed, handling)


def _orientation(image: ImageFile.ImageFile) -> int:
    """Returns the orientation from EXIF or XMP; a TIFF has it in a tag of its own."""
    if not isinstance(image, TiffImageFile):
        return read_orientation(image.info.get("exif", b""), image.info.get("xmp", b""))
    value = image.tag_v2.get(ORIENTATION_TAG)
    return value if value in TURNS else UPRIGHT


def _check_tiles(image: TiffImageFile, limits: ImageLimits) -> None:
    """Rejects TIFF tiles above the pixel limit, because each is decoded as a whole."""
    width, height = image.tag_v2.get(_TILE_WIDTH, 1), image.tag_v2.get(_TILE_HEIGHT, 1)
    if width * height > limits.max_pixels:
        raise ImageRejected(f"TIFF tiles of {width} x {height}, expected at most {limits.max_pixels:,} pixels")
