"""What ingest does to the bytes of one image, so that training sees what a person sees.

    bytes ─► format ─► header: size, honest? ─► does TensorFlow show what a person sees?
               │             │                    ├─ yes ─► read to the end ───► the very same bytes, or smaller
               │             │                    └─ no ──► decode, set right ─► JPEG (from JPEG) or PNG
               ▼             ▼                                     │
           not an image   too large, lies                   truncated, corrupt           all of these: ImageRejected

"TensorFlow" is a plain `tf.io.decode_image(content, channels=3)`, which ignores EXIF, drops alpha and knows neither
WebP nor TIFF. "A person" has a viewer that honours EXIF and shows the first frame on white paper.

    jpeg_header ─► jpeg ──────────┐
    png ─► png_rows ──────────────┼─► redraw ─► orientation, stored, looks, limits
    convert: GIF, WebP, BMP, TIFF ┘

The headers of JPEG and PNG are read here and not by Pillow. The size is then known before anything is allocated.
Pillow forgives PNG files that libpng, and so TensorFlow, refuses: missing rows, no IEND, wrong checksums. And what
makes no pixel (text, profiles, thumbnails) is never parsed: Pillow is given the file without it.

What a check of the header alone lets pass (`Handling.full`): damage inside the coded data of a JPEG or PNG that
stays as it is. What is cut off, lies about its size, is too large or is no image is found all the same.
"""

import re
from typing import Final

from components.ingest.images import jpeg_header
from components.ingest.images.limits import CheckedImage, Handling, ImageLimits, ImageRejected

__all__ = ["CheckedImage", "Handling", "ImageLimits", "ImageRejected", "check_image"]

_MAGIC: Final = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)|(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<GIF>GIF8[79]a)|(?P<WEBP>RIFF....WEBP)"
    rb"|(?P<TIFF>II[*+]\0|MM\0[*+])|(?P<BMP>BM)",
    re.DOTALL,
)
_HEAD_BYTES: Final = 24
_AS_IT_IS: Final = Handling()
_EXPECTED: Final = "expected JPEG, PNG, GIF, WebP, BMP or TIFF"


def check_image(content: bytes, limits: ImageLimits, handling: Handling = _AS_IT_IS) -> CheckedImage:
    """Returns `content` as an image to train on.

    Args:
        content: A whole file, of any origin and perhaps hostile.
        limits: What it may cost.
        handling: How far it is read, and as what it is stored.

    Raises:
        ImageRejected: The content is no image, is damaged, or costs more than `limits`. Nothing else is raised.
    """
    source_format = _format_of(content, limits)
    try:
        return _check(content, source_format, limits, handling)
    except ImageRejected:
        raise
    except Exception as error:
        # On damaged files Pillow raises nearly every built-in exception, MemoryError among them.
        raise ImageRejected(f"{source_format} cannot be decoded: {_one_line(error)}") from error


def _check(content: bytes, source_format: str, limits: ImageLimits, handling: Handling) -> CheckedImage:
    """Has it checked by whoever knows the format; decoders are imported when there is something to decode."""
    if source_format == "JPEG":
        if not handling.full and (kept := jpeg_header.keep(content, limits, handling)):
            return kept
        from components.ingest.images.jpeg import check_jpeg

        return check_jpeg(content, limits, handling)
    if source_format == "PNG":
        from components.ingest.images.png import check_png

        return check_png(content, limits, handling)
    from components.ingest.images.convert import convert

    return convert(content, source_format, limits, handling)


def _format_of(content: bytes, limits: ImageLimits) -> str:
    """Returns the format by the first bytes: a file's name proves nothing."""
    if not content:
        raise ImageRejected(f"empty file, {_EXPECTED}")
    if len(content) > limits.max_bytes:
        raise ImageRejected(f"file of {len(content):,} bytes, expected at most {limits.max_bytes:,} (max_file_mb)")
    if (found := _MAGIC.match(content)) and found.lastgroup:
        return found.lastgroup
    head = ascii(content[:_HEAD_BYTES].decode("latin-1"))
    more = "…" if len(content) > _HEAD_BYTES else ""
    raise ImageRejected(f"not an image: starts with {head}{more}, {_EXPECTED}")


def _one_line(error: Exception) -> str:
    """Returns a foreign exception's message as one short printable line, with its type when it is a bare value."""
    text = " ".join(str(error).split())
    words = text if " " in text else f"{type(error).__name__} {text}".strip()
    return ascii(words)[1:-1][:200]
