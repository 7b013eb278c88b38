"""A decoded image set right and stored anew: what is left to do when TensorFlow would not show what a person sees.

load ─► on white paper, if one sees through it ─► gray or RGB, of 8 bits ─► upright ─┬─► JPEG (from JPEG) or PNG
                                                                                     └─► reduced: JPEG or pixels
"""

import io
from collections.abc import Iterable
from typing import Final

from PIL import Image, ImageFile, ImageOps
from PIL.TiffImagePlugin import TiffImageFile

from components.ingest.images.limits import CheckedImage, Handling, ImageRejected
from components.ingest.images.orientation import upright
from components.ingest.images.perceptual_hash import look_of
from components.ingest.images.storage_format import as_jpeg, as_ppm, reduce

# Reasons for a change that more than one format has.
ROTATED: Final = "EXIF rotation"
FIRST_FRAME: Final = "first frame"
ALPHA: Final = "alpha"
_STORED: Final = {"jpeg": "stored as JPEG", "raw": "stored raw"}

_TIFF_BITS, _TIFF_PHOTOMETRIC = 258, 262
_WHITE_IS_ZERO: Final = 0
_WHITE: Final = 255
_DEEPEST_WHITE: Final = 65535


def load(image: ImageFile.ImageFile) -> None:
    """Decodes the pixels; a cut file raises."""
    # A switch of the whole process, which other libraries turn on: cut files would then pass, half of them gray.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    image.load()


def on_white(image: Image.Image) -> Image.Image | None:
    """Returns the image on white paper when the paper shows through, else None."""
    if not image.has_transparency_data:
        return None
    layer = image.convert("RGBA")
    alpha = layer.getchannel("A")
    if alpha.getextrema() == (_WHITE, _WHITE):
        return None
    paper = Image.new("RGB", image.size, "white")
    paper.paste(layer, mask=alpha)
    return paper


def store(
    image: Image.Image, source_format: str, orientation: int, changed: Iterable[str], handling: Handling
) -> CheckedImage:
    """Encodes an opaque image, upright and without any metadata."""
    picture = upright(gray_or_rgb(image), orientation)
    picture.info = {}
    look = look_of(picture)
    anew = handling.redraws(*picture.size)
    if anew:
        picture = reduce(picture, handling.side)
    content = _as_asked(picture, handling) if anew else _as_it_came(picture, source_format)
    why = [*changed, _STORED[handling.store]] if anew else changed
    return CheckedImage(content, *picture.size, source_format, ", ".join(why), look)


def _as_asked(picture: Image.Image, handling: Handling) -> bytes:
    return as_ppm(picture) if handling.store == "raw" else as_jpeg(picture, handling.quality, "4:2:0")


def _as_it_came(picture: Image.Image, source_format: str) -> bytes:
    """Encodes a JPEG as JPEG, and all others as PNG, without loss."""
    if source_format == "JPEG":
        return as_jpeg(picture, quality=95, subsampling="4:4:4")
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=4)  # of a photo: half the time of the default, 2 % more bytes
    return out.getvalue()


def gray_or_rgb(image: Image.Image) -> Image.Image:
    """Returns the image in 8 bits, gray ("L") or "RGB"."""
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        return _gray_8_bit(image)
    return image.convert("RGB")


def _gray_8_bit(image: Image.Image) -> Image.Image:
    """Returns a deep gray image in 8 bits, where Pillow would clip it at 255.

    16 bits keep their upper half, as in TensorFlow. In 32 bits and floats no file says what white is, so it is the
    least of 1 (floats only), 255 and 65535 that no pixel exceeds.
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
