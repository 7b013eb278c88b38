"""Reads and applies the orientation of an image: cameras store the sensor's pixels and a number from 1 to 8.

EXIF: a TIFF directory with tag 0x0112 ─┐
XMP:  tiff:Orientation="6" ─────────────┴─► 1: upright; 2 to 8: mirrored, turned, or both
"""

import re
import struct
from typing import Final

from PIL import Image

UPRIGHT: Final = 1
ORIENTATION_TAG: Final = 0x0112
TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_BYTE_ORDERS: Final = {b"II*\0": "<", b"MM\0*": ">"}
_INTEGERS: Final = {3: "H", 4: "I"}
_XMP_ORIENTATION: Final = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


def read_orientation(exif: bytes, xmp: bytes) -> int:
    """Returns 2 to 8 if the image must be turned, else `UPRIGHT`. EXIF takes precedence over XMP, as in Pillow."""
    value = _from_exif(exif)
    if value is None and (found := _XMP_ORIENTATION.search(xmp)):
        value = int(found[1])
    return value if value in TURNS else UPRIGHT


def upright(image: Image.Image, orientation: int) -> Image.Image:
    """Returns the image rotated and mirrored to upright."""
    return image.transpose(TURNS[orientation]) if orientation in TURNS else image


def _from_exif(exif: bytes) -> int | None:
    """Returns the orientation in an EXIF block, or None if there is none or the block is damaged."""
    tiff = exif.removeprefix(b"Exif\0\0")
    order = _BYTE_ORDERS.get(tiff[:4])
    if order is None:
        return None
    try:
        (directory,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, directory)
        for entry in range(directory + 2, directory + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", tiff, entry)
            if tag == ORIENTATION_TAG and kind in _INTEGERS:
                return int(struct.unpack_from(order + _INTEGERS[kind], tiff, entry + 8)[0])
    except struct.error:
        pass
    return None
