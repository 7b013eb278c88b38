r"""As what a picture is stored when it is drawn anew: small enough for training, quick to decode.

    original  the bytes of the file
    jpeg      shorter side at most `side`: of photos of 500 px a quarter to half of the disk, and of the time to decode
    raw       the same size, but as pixels: nothing left to decode, at 256 px about three times the disk

Raw pixels are a PPM file, so that any viewer shows them, with a header of fixed length, so that TensorFlow finds the
numbers without parsing it:

    P6 00341 00256 255\n RGBRGB…
       └ 3   └ 9        └ PPM_HEADER_BYTES
"""

import io
from typing import Final

from PIL import Image

from components.ingest.images.limits import ImageRejected

PPM_HEADER_BYTES: Final = 19
PPM_WIDTH_AT, PPM_HEIGHT_AT, PPM_DIGITS = 3, 9, 5
_MAX_SIDE: Final = 10**PPM_DIGITS - 1
# By how much a decoder or a box filter may leave a picture larger than it will be: Pillow's own figure for thumbnails.
DRAFT: Final = 2


def fit(width: int, height: int, side: int) -> tuple[int, int]:
    """Returns the size with a shorter side of at most `side`; never a larger one."""
    shorter = min(width, height)
    if shorter <= side:
        return width, height
    return max(1, round(width * side / shorter)), max(1, round(height * side / shorter))


def reduce(picture: Image.Image, side: int) -> Image.Image:
    """Returns the picture at its stored size."""
    size = fit(*picture.size, side)
    if size == picture.size:
        return picture
    return picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=DRAFT)


def as_jpeg(picture: Image.Image, quality: int, subsampling: str) -> bytes:
    """Encodes a picture in gray or RGB."""
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality, subsampling=subsampling)
    return out.getvalue()


def as_ppm(picture: Image.Image) -> bytes:
    """Returns the pixels of a picture, as RGB behind a header."""
    width, height = picture.size
    if max(width, height) > _MAX_SIDE:
        raise ImageRejected(f"size {width} x {height}, expected at most {_MAX_SIDE:,} a side to be stored raw")
    pixels = picture if picture.mode == "RGB" else picture.convert("RGB")
    return b"P6 %05d %05d 255\n" % (width, height) + pixels.tobytes()


def for_people(content: bytes) -> bytes:
    """Returns a stored picture in a format that browsers show: raw pixels as PNG, all else as it is."""
    if not content.startswith(b"P6 "):
        return content
    out = io.BytesIO()
    with Image.open(io.BytesIO(content), formats=("PPM",)) as picture:
        picture.save(out, "PNG")
    return out.getvalue()
