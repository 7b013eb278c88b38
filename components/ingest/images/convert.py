"""GIF, WebP, AVIF, JPEG 2000, BMP and TIFF: TensorFlow cannot decode them, or not as a viewer does, so they become PNG.

header ─► size, tiles ─► first frame ─► on a white background ─► upright ─► PNG
"""

import io
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageFile
from PIL.AvifImagePlugin import AvifImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from components.ingest.images.avif import frame_sizes
from components.ingest.images.limits import RAW, CheckedImage, ImageRejected, check_size, unsupported
from components.ingest.images.orientation import ORIENTATION_TAG, TURNS, UPRIGHT, read_orientation
from components.ingest.images.reencode import ALPHA, FIRST_FRAME, ROTATED, load, on_white, store

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

# `check_size` replaces Pillow's limit; a damaged TIFF tag that matters raises an exception as well.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.TiffImagePlugin")

_OPENERS: Final[Mapping[str, Callable[[io.BytesIO], ImageFile.ImageFile]]] = {
    "GIF": GifImageFile,
    "WEBP": WebPImageFile,
    "AVIF": AvifImageFile,
    "JPEG2000": Jpeg2KImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
}
_TILE_WIDTH, _TILE_HEIGHT = 322, 323
_SUBFILE, _PHOTOMETRIC, _DNG_VERSION = 254, 262, 50706
_COLOUR_FILTER, _LINEAR_RAW = 32803, 34892  # photometric: the values of a sensor


def convert(content: bytes, source_format: str, settings: "Ingest") -> CheckedImage:
    """Converts the first frame to PNG, or to the format in the settings."""
    for size in frame_sizes(content) if source_format == "AVIF" else ():
        check_size(*size, settings)
    image = _OPENERS[source_format](io.BytesIO(content))
    check_size(*image.size, settings)
    changed = [source_format]
    changed += [FIRST_FRAME] if getattr(image, "is_animated", False) else []
    if isinstance(image, TiffImageFile):
        _check_raw(image)
        _check_tiles(image, settings)
    orientation = _orientation(image)
    changed += [ROTATED] if orientation != UPRIGHT else []
    load(image)
    opaque = on_white(image)
    changed += [ALPHA] if opaque else []
    # Pillow rotates a TIFF while loading it, and no other format.
    remaining = UPRIGHT if source_format == "TIFF" else orientation
    return store(opaque or image, source_format, remaining, changed, settings)


def _orientation(image: ImageFile.ImageFile) -> int:
    """Returns the orientation from EXIF or XMP; a TIFF has it in a tag of its own."""
    if not isinstance(image, TiffImageFile):
        return read_orientation(image.info.get("exif", b""), image.info.get("xmp", b""))
    value = image.tag_v2.get(ORIENTATION_TAG)
    return value if value in TURNS else UPRIGHT


def _check_raw(image: TiffImageFile) -> None:
    """Rejects camera raw: the first image of the file is a thumbnail, or holds the values of a sensor."""
    tags = image.tag_v2
    is_thumbnail = bool(tags.get(_SUBFILE, 0) & 1)
    if is_thumbnail or _DNG_VERSION in tags or tags.get(_PHOTOMETRIC) in {_COLOUR_FILTER, _LINEAR_RAW}:
        raise ImageRejected(unsupported(*RAW))


def _check_tiles(image: TiffImageFile, settings: "Ingest") -> None:
    """Rejects TIFF tiles above the pixel limit, because each is decoded as a whole."""
    width, height = image.tag_v2.get(_TILE_WIDTH, 1), image.tag_v2.get(_TILE_HEIGHT, 1)
    if width * height > settings.max_pixels:
        raise ImageRejected(f"TIFF tiles of {width} x {height}, expected at most {settings.max_pixels:,} pixels")
