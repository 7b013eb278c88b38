r"""The formats in which images are stored (setting ingest.store): small enough for training, fast to decode.

    original  the bytes of the file
    jpeg      shorter side at most `side`: for photos of 500 px, a quarter to half of the disk space and decoding time
    raw       the same size as pixels: nothing to decode, at 256 px about three times the disk space

Raw pixels are a PPM file, so any viewer shows them. The header has a fixed length, so TensorFlow finds width and height
without parsing:

    P6 00341 00256 255\n RGBRGB…
       └ 3   └ 9        └ PPM_HEADER_BYTES
"""

import io
from typing import Final

from PIL import Image

PPM_HEADER_BYTES: Final = 19
PPM_WIDTH_AT, PPM_HEIGHT_AT, PPM_DIGITS = 3, 9, 5
_MAX_SIDE: Final = 10**PPM_DIGITS - 1
# How many times larger than the final size a decoder or box filter may leave an image; Pillow's value for thumbnails.
REDUCING_GAP: Final = 2


def fit(width: int, height: int, side: int) -> tuple[int, int]:
    """Returns the size scaled down to a shorter side of at most `side`."""
    shorter = min(width, height)
    if shorter <= side:
        return width, height
    return max(1, round(width * side / shorter)), max(1, round(height * side / shorter))


def resize(image: Image.Image, side: int) -> Image.Image:
    """Returns the image with a shorter side of at most `side`."""
    size = fit(*image.size, side)
    if size == image.size:
        return image
    return image.resize(size, Image.Resampling.BICUBIC, reducing_gap=REDUCING_GAP)


def as_jpeg(image: Image.Image, quality: int, subsampling: str = "4:2:0") -> bytes:
    """Encodes a gray or RGB image."""
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, subsampling=subsampling)
    return out.getvalue()


def as_ppm(image: Image.Image) -> bytes:
    """Returns the image as PPM: a header, then RGB pixels."""
    width, height = image.size
    if max(width, height) > _MAX_SIDE:
        raise ValueError(f"size {width} x {height}, expected at most {_MAX_SIDE:,} per side for ingest.store = raw")
    pixels = image if image.mode == "RGB" else image.convert("RGB")
    return b"P6 %05d %05d 255\n" % (width, height) + pixels.tobytes()


def for_people(content: bytes) -> bytes:
    """Returns a stored image in a format that browsers show: raw pixels as PNG, everything else unchanged."""
    if not content.startswith(b"P6 "):
        return content
    out = io.BytesIO()
    with Image.open(io.BytesIO(content), formats=("PPM",)) as image:
        image.save(out, "PNG")
    return out.getvalue()
