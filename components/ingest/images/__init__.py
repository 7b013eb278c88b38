"""Checks the bytes of one image, and re-encodes it where TensorFlow would decode something else than people see.

    bytes ─► format ─► header: size ─► does TensorFlow decode what a viewer shows?
               │             │           ├─ yes ─► read to the end ──────► the same bytes, or a smaller copy
               │             │           └─ no ──► decode and correct it ─► JPEG (from JPEG) or PNG
               ▼             ▼                              │
          not an image   too large, or more               truncated or corrupt           all of these: ImageRejected
                         than the data can hold

"TensorFlow" is a plain `tf.io.decode_image(content, channels=3)`, which ignores EXIF, drops alpha and supports neither
WebP nor TIFF. "A viewer" applies the EXIF orientation and shows the first frame on a white background.

    jpeg ─────────────────────────┐
    png ──────────────────────────┼─► reencode ─► orientation, image_format, perceptual_hash, limits
    convert: all others ──────────┘

Our own code reads the headers of JPEG and PNG, not Pillow: it knows the size before anything is allocated. Pillow
accepts PNG files that libpng, and so TensorFlow, rejects: missing rows, no IEND, wrong checksums. And Pillow never
parses what makes no pixel (text, profiles, thumbnails), because it gets the file without that.

A check of the header alone (`image_check=header`) does not find damage inside the coded data of a JPEG or PNG that
is stored unchanged. It does find files that are cut off, too large, no image, or that announce a wrong size.
"""

import re
from typing import TYPE_CHECKING, Final

from components.ingest.images.limits import RAW, CheckedImage, ImageRejected, unsupported

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

__all__ = ["CheckedImage", "ImageRejected", "check_image"]

_MAGIC: Final = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)|(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<GIF>GIF8[79]a)|(?P<WEBP>RIFF....WEBP)"
    rb"|(?P<AVIF>....ftyp(?:avi[fs]|(?:mif1|msf1).{0,60}?avi[fs]))"
    rb"|(?P<JPEG2000>\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51)"
    rb"|(?P<TIFF>II[*+]\0(?!....CR)|MM\0[*+])|(?P<BMP>BM)",
    re.DOTALL,
)
# Formats that neither TensorFlow nor Pillow decodes as a viewer does, with the program that converts them.
_UNSUPPORTED: Final = (
    ("HEIC", "magick FILE.heic FILE.jpg", rb"....ftyp(?:he[iv][cmsx]|mif1|msf1)"),
    (*RAW, rb"II\*\0....CR|....ftypcrx |IIU\0|IIR[OS]|MMOR|FUJIFILMCCD-RAW|FOVb|II\x1a\0\0\0HEAP"),
    ("JPEG XL", "djxl FILE.jxl FILE.jpg", rb"\xff\x0a|\0\0\0\x0cJXL "),
    ("SVG", "rsvg-convert FILE.svg > FILE.png", rb"(?:\xef\xbb\xbf)?\s*(?:<(?:\?xml|!).{0,2000}?)?<svg[\s>]"),
    ("PSD", "magick 'FILE.psd[0]' FILE.jpg", rb"8BPS"),
)
_HEAD_BYTES: Final = 24
_EXPECTED: Final = "expected JPEG, PNG, GIF, WebP, AVIF, JPEG 2000, BMP or TIFF"


def check_image(content: bytes, settings: "Ingest", *, hashed: bool = True) -> CheckedImage:
    """Returns `content` as an image to train on.

    Args:
        content: A whole file, possibly hostile.
        settings: Limits, how much of the file is read, and in which format it is stored.
        hashed: Whether the perceptual hash is needed; a check without it is faster.

    Raises:
        ImageRejected: The content is no image, is damaged, or exceeds a limit. Nothing else is raised.
    """
    source_format = _format_of(content, settings)
    try:
        return _check(content, source_format, settings, hashed=hashed)
    except ImageRejected:
        raise
    except Exception as error:
        # On damaged files Pillow raises nearly every built-in exception, MemoryError included.
        raise ImageRejected(f"{source_format} cannot be decoded: {_one_line(error)}") from error


def _check(content: bytes, source_format: str, settings: "Ingest", *, hashed: bool) -> CheckedImage:
    """Checks the content with the module of its format, which imports Pillow's decoder when it is first needed."""
    if source_format == "JPEG":
        from components.ingest.images.jpeg import check_jpeg

        return check_jpeg(content, settings, hashed=hashed)
    if source_format == "PNG":
        from components.ingest.images.png import check_png

        return check_png(content, settings, hashed=hashed)
    from components.ingest.images.convert import convert

    return convert(content, source_format, settings)


def _format_of(content: bytes, settings: "Ingest") -> str:
    """Returns the format that the first bytes show; the file name does not count."""
    if not content:
        raise ImageRejected(f"empty file, {_EXPECTED}")
    if len(content) > (most := settings.max_file_mb << 20):
        raise ImageRejected(f"file of {len(content):,} bytes, expected at most {most:,} (max_file_mb)")
    if (found := _MAGIC.match(content)) and found.lastgroup:
        return found.lastgroup
    for name, command, pattern in _UNSUPPORTED:
        if re.match(pattern, content, re.DOTALL):
            raise ImageRejected(unsupported(name, command))
    head = ascii(content[:_HEAD_BYTES].decode("latin-1"))
    more = "…" if len(content) > _HEAD_BYTES else ""
    raise ImageRejected(f"not an image: starts with {head}{more}, {_EXPECTED}")


def _one_line(error: Exception) -> str:
    """Returns a Pillow exception's message as one short printable line, with its type if the message is one word."""
    text = " ".join(str(error).split())
    words = text if " " in text else f"{type(error).__name__} {text}".strip()
    return ascii(words)[1:-1][:200]
