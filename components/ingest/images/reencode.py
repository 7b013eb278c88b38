"""Re-encodes a decoded image that TensorFlow would decode to something else than a viewer shows.

load ─► alpha on a white background ─► 8-bit gray or RGB ─► upright ─┬─► JPEG (from JPEG) or PNG
                                                                     └─► resized: JPEG or raw pixels
"""

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageFile, ImageOps
from PIL.TiffImagePlugin import TiffImageFile

from components.ingest.images.limits import CheckedImage, ImageRejected
from components.ingest.images.orientation import upright
from components.ingest.images.perceptual_hash import perceptual_hash
from components.records.image_format import as_jpeg, as_ppm, resize

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

# Reasons for re-encoding that several formats share.
ROTATED: Final = "EXIF rotation"
FIRST_FRAME: Final = "first frame"
ALPHA: Final = "alpha"
_STORED: Final = {"jpeg": "stored as JPEG", "raw": "stored raw"}

_TIFF_BITS, _TIFF_PHOTOMETRIC = 258, 262
_WHITE_IS_ZERO: Final = 0
_WHITE: Final = 255
_DEEPEST_WHITE: Final = 65535


def load(image: ImageFile.ImageFile) -> None:
    """Decodes the pixels; a truncated file raises."""
    # Other libraries turn this global switch on. Truncated files would then pass, with the rest in gray.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    image.load()


def on_white(image: Image.Image) -> Image.Image | None:
    """Returns the image on a white background if it has transparent pixels, else None."""
    if not image.has_transparency_data:
        return None
    layer = image.convert("RGBA")
    alpha = layer.getchannel("A")
    if alpha.getextrema() == (_WHITE, _WHITE):
        return None
    background = Image.new("RGB", image.size, "white")
    background.paste(layer, mask=alpha)
    return background


def is_resized(width: int, height: int, settings: "Ingest") -> bool:
    """Whether an image that needs no correction is re-encoded, too."""
    return settings.store == "raw" or (settings.store == "jpeg" and min(width, height) > settings.store_side)


def store(
    image: Image.Image, source_format: str, orientation: int, changed: Iterable[str], settings: "Ingest"
) -> CheckedImage:
    """Encodes an opaque image, upright and without metadata."""
    image = upright(gray_or_rgb(image), orientation)
    image.info = {}
    hashed = perceptual_hash(image)
    if not is_resized(*image.size, settings):
        content = _in_own_format(image, source_format)
        return CheckedImage(content, *image.size, source_format, ", ".join(changed), hashed)
    image = resize(image, settings.store_side)
    content = _as_ppm(image) if settings.store == "raw" else as_jpeg(image, settings.store_quality)
    return CheckedImage(content, *image.size, source_format, ", ".join([*changed, _STORED[settings.store]]), hashed)


def _as_ppm(image: Image.Image) -> bytes:
    try:
        return as_ppm(image)
    except ValueError as error:
        raise ImageRejected(str(error)) from None


def _in_own_format(image: Image.Image, source_format: str) -> bytes:
    """Encodes a JPEG as JPEG, and all other formats losslessly as PNG."""
    if source_format == "JPEG":
        return as_jpeg(image, quality=95, subsampling="4:4:4")
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=4)  # half the time of the default level, 2 % more bytes
    return out.getvalue()


def gray_or_rgb(image: Image.Image) -> Image.Image:
    """Returns the image as 8-bit gray ("L") or "RGB"."""
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        return _gray_8_bit(image)
    return image.convert("RGB")


def _gray_8_bit(image: Image.Image) -> Image.Image:
    """Returns a 16-bit, 32-bit or float gray image in 8 bits; Pillow would clip it at 255.

    Of 16 bits the upper 8 are kept, as in TensorFlow. No file of 32 bits or floats says which value is white, so white
    is the smallest of 1 (floats only), 255 and 65535 that no pixel exceeds.
    """
    import numpy as np

    values = np.asarray(image)
    low, high = float(values.min()), float(values.max())
    if not 0 <= low <= high <= _DEEPEST_WHITE:
        raise ImageRejected(f"{image.mode} pixels from {low} to {high}, expected 0 to {_DEEPEST_WHITE}")
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    if image.mode == "F":
        white = next(white for white in (1, _WHITE, _DEEPEST_WHITE) if high <= white)
        values = values * (255 / white) + 0.5
    elif image.mode == "I":
        values = values >> (8 if high > _WHITE else 0)
    else:
        values = values >> (tags.get(_TIFF_BITS, (16,))[0] - 8)
    result = Image.fromarray(values.astype(np.uint8))
    return ImageOps.invert(result) if tags.get(_TIFF_PHOTOMETRIC) == _WHITE_IS_ZERO else result
