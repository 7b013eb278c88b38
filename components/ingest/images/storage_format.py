r"""As what a image is stored when it is drawn anew: small enough for training, quick to decode.

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
# By how much a decoder or a box filter may leave a image larger than it will be: Pillow's own figure for thumbnails.
DRAFT: Final = 2


def fit(width: int, height: int, side: int) -> tuple[int, int]:
    """Returns the size with a shorter side of at most `side`; never a larger one."""
    shorter = min(width, height)
    if shorter <= side:
        return width, height
    return max(1, round(width * side / shorter)), max(1, round(height * side / shorter))


def reduce(image: Image.Image, side: int) -> Image.Image:
    """Returns the image at its stored size."""
    size = fit(*image.size, side)
    if size == image.size:
        return image
    return image.resize(size, Image.Resampling.BICUBIC, reducing_gap=DRAFT)


def as_jpeg(image: Image.Image, quality: int, subsampling: str) -> bytes:
    """Encodes a image in gray or RGB."""
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, subsampling=subsampling)
    return out.getvalue()


def as_ppm(image: Image.Image) -> bytes:
    """Returns the pixels of a image, as RGB behind a header."""
    width, height = image.size
    if max(width, height) > _MAX_SIDE:
        raise ImageRejected(f"size {width} x {height}, expected at most {_MAX_SIDE:,} a side to be stored raw")
    pixels = image if image.mode == "RGB" else image.convert("RGB")
    return b"P6 %05d %05d 255\n" % (width, height) + pixels.tobytes()


def for_people(content: bytes) -> bytes:
    """Returns a stored image in a format that browsers show: raw pixels as PNG, all else as it is."""
    if not content.startswith(b"P6 "):
        return content
    out = io.BytesIO()
    with Image.open(io.BytesIO(content), formats=("PPM",)) as image:
        image.save(out, "PNG")
    return out.getvalue()
