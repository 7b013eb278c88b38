"""JPEG: kept byte for byte if it is upright in gray or colour, else re-encoded.

FFD8 ─► segments (marker, length, body) ─► first scan ─► coded data, maybe more segments and scans ─► FFD9
          │ APP1: EXIF, XMP                  └─ a header check only looks for its end; a full check reads it all: with
          │ frame: size, components             the native checker if the file is regular, else decoded at 1/8 size
          └ Pillow's parser gets the file without APPs and comments, if the image is re-encoded
"""

import io
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from components.ingest.images import perceptual_hash
from components.ingest.images.limits import CheckedImage, ImageRejected, check_size
from components.ingest.images.orientation import UPRIGHT, read_orientation
from components.ingest.images.reencode import ROTATED, is_resized, load, store
from components.native.check import checker
from components.records.image_format import REDUCING_GAP, fit

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

# Each scan of a progressive file costs a pass over the whole image; encoders write about ten.
_MAX_SCANS: Final = 100
_MAX_SEGMENTS: Final = 10_000
# Huffman codes take at least one bit per block of 64 pixels: 512 pixels per byte; a flat gray image has 256.
_PIXELS_PER_BYTE: Final = 2_000
_BITS: Final = 8
_CMYK_COMPONENTS: Final = 4
_COMPONENTS: Final = (1, 3, _CMYK_COMPONENTS)
_SOI, _EOI, _SOS, _APP1 = 0xD8, 0xD9, 0xDA, 0xE1
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL_FRAMES: Final = frozenset([0xC0, 0xC1, 0xC9])
_HUFFMAN_FRAMES: Final = frozenset([0xC0, 0xC1, 0xC2])
# The other frames are lossless or hierarchical. TensorFlow cannot decode them. A decoder that can does not decode them
# at a reduced size, so Pillow would write past the end of the image that it has allocated.
_KNOWN_FRAMES: Final = _SEQUENTIAL_FRAMES | {0xC2, 0xCA}
# APP0 (JFIF) and APP14 (Adobe) define the colours; the other APPs and comments make no pixel.
_METADATA: Final = frozenset([*range(_APP1, 0xEE), 0xEF, 0xFE])
_EXIF_HEAD: Final = b"Exif\0\0"
_XMP_HEAD: Final = b"http://ns.adobe.com/xap/1.0/\0"
# Coded data holds FF only as FF00 and as restart markers (D0 to D7), which have no length; FF01 has none either.
_MARKER: Final = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")
# The gray values that libjpeg gives to missing blocks; and coded data to append in a trial: any bytes but FF, with all
# restart markers, because the data may have ended before any of them.
_MISSING: Final = frozenset([127, 128])
_SOME: Final = bytes((11 * at * at + 8 * at + 3) % 255 for at in range(256))
_TRIAL: Final = b"".join(_SOME + bytes([0xFF, 0xD0 + at % 8]) for at in range(16)) + _SOME
_NO_END: Final = "JPEG is truncated: no end marker, expected one after the image data"


class _Segment(NamedTuple):
    marker: int
    start: int  # of its two length bytes, which follow the marker
    end: int


class _Frame(NamedTuple):
    width: int
    height: int
    components: int
    sequential: bool  # all data of a component is in one scan
    huffman: bool  # otherwise arithmetic codes, whose data may end early


@dataclass(frozen=True)
class _Jpeg:
    frame: _Frame
    orientation: int
    scans: int
    data_bytes: int
    content: bytes
    header: Sequence[_Segment]  # up to the first scan
    stop: int  # offset behind the end marker

    @property
    def without_metadata(self) -> bytes:
        """The file without metadata and without what follows the end marker."""
        kept = [(start - 2, end) for marker, start, end in self.header if marker not in _METADATA]
        view = memoryview(self.content)
        return b"".join([view[start:end] for start, end in [(0, 2), *kept, (self.header[-1].end, self.stop)]])


def check_jpeg(content: bytes, settings: "Ingest", *, hashed: bool = True) -> CheckedImage:
    """Keeps an upright gray or colour JPEG; re-encodes the others, and those that the settings resize."""
    full = settings.image_check == "full"
    jpeg = _read(content, full=full)
    width, height, components, *_ = jpeg.frame
    check_size(width, height, settings)
    _check_data(jpeg)
    changed = [ROTATED] if jpeg.orientation != UPRIGHT else []
    changed += ["CMYK"] if components == _CMYK_COMPONENTS else []
    if changed or is_resized(width, height, settings):
        return store(_decode(jpeg, settings), "JPEG", jpeg.orientation, changed, settings)
    return CheckedImage(content, width, height, "JPEG", "", _check_pixels(jpeg, hashed=hashed) if full else None)


def _decode(jpeg: _Jpeg, settings: "Ingest") -> JpegImageFile:
    """Decodes the image, at a fraction of its size if it will be resized to less than that."""
    image = JpegImageFile(io.BytesIO(jpeg.without_metadata))
    if settings.store != "original":
        width, height = fit(*image.size, settings.store_side)
        image.draft(image.mode, (REDUCING_GAP * width, REDUCING_GAP * height))
    load(image)
    if jpeg.frame.components != _CMYK_COMPONENTS and _ends_missing(image):
        _check_pixels(jpeg)
    return image


def _check_pixels(jpeg: _Jpeg, *, hashed: bool = True) -> int | None:
    """Returns the perceptual hash; reads all coded data, but computes one pixel in 64 where that is enough to hash.

    Without a hash, that is enough for an image of any size.
    """
    width, height = jpeg.frame.width, jpeg.frame.height
    scale = next((each for each in (checker.SCALE, 4, 2) if min(width, height) // each >= perceptual_hash.SIDE), 1)
    size = -(-width // scale), -(-height // scale)
    eighth = scale == checker.SCALE or not hashed
    regular = checker.regular_gray(jpeg.content, jpeg.stop, width, height) if eighth else None
    if regular is not None and not hashed:
        return None
    if regular is not None:
        gray = Image.frombytes("L", size, regular)
    else:
        gray = _gray(jpeg.content, size, scale)
        _check_not_cut(jpeg, gray, scale)
    return perceptual_hash.perceptual_hash(gray, (width / scale, height / scale)) if hashed else None


def _gray(content: bytes, size: tuple[int, int], scale: int) -> Image.Image:
    """Decodes a file to gray, at a fraction of its size.

    Pillow's decoder trusts the size that it is given, whatever the file says. So it must be exactly the size that
    libjpeg will find: that is why `_segments` walks as libjpeg does and `_frame` accepts one frame of a known kind.
    """
    try:
        # Without Pillow's own parser, which would take longer than everything else for a small file.
        return Image.frombytes("L", size, content, "jpeg", "L", "", scale, 0)
    except ValueError as error:
        raise ImageRejected("JPEG cannot be decoded: its data is broken") from error


def _check_not_cut(jpeg: _Jpeg, gray: Image.Image, scale: int) -> None:
    """Rejects coded data that ends before the image does; libjpeg leaves the rest gray and reports nothing.

    libjpeg ignores data after that of a whole image. So if appended data changes the image, some was missing.
    """
    if not (jpeg.frame.huffman and _ends_missing(gray)):
        return
    end = jpeg.stop - 2
    longer = jpeg.content[:end].rstrip(b"\xff") + _TRIAL + b"\xff\xd9"
    if _gray(longer, gray.size, scale).tobytes() != gray.tobytes():
        raise ImageRejected(f"JPEG is truncated or corrupt: its data ends at byte {end}, before the image does", end)


def _ends_missing(image: Image.Image) -> bool:
    """Whether the last pixel has the gray of missing data, which few intact images have there."""
    last = image.getpixel((image.width - 1, image.height - 1))
    return _MISSING.issuperset(last if isinstance(last, tuple) else [last])


def _read(content: bytes, *, full: bool) -> _Jpeg:
    """Reads the segments and measures the coded data; without `full`, scans after the first are not looked for."""
    header = _segments(content, 2, _SOS)
    data = header[-1].end
    rest = _segments(content, data, _EOI) if full else [_end(content, data)]
    segments = [*header, *rest]
    frame = _frame(content, segments)
    _check_one_scan(content, frame, header[-1], rest[0])
    bodies = [content[start + 2 : end] for marker, start, end in header if marker == _APP1]
    return _Jpeg(
        frame=frame,
        orientation=read_orientation(_first(bodies, _EXIF_HEAD), _first(bodies, _XMP_HEAD)) if bodies else UPRIGHT,
        scans=sum(segment.marker == _SOS for segment in segments),
        data_bytes=rest[-1].end - data,
        content=content,
        header=header,
        stop=rest[-1].end,
    )


def _end(content: bytes, data: int) -> _Segment:
    """Returns the last end marker; a truncated file has none."""
    found = content.rfind(b"\xff\xd9", data)
    if found < 0:
        raise ImageRejected(_NO_END, len(content))
    return _Segment(_EOI, found + 2, found + 2)


def _segments(content: bytes, at: int, last: int) -> list[_Segment]:
    """Returns the segments from an offset to the first of kind `last`; skips stray bytes between them, as libjpeg."""
    segments: list[_Segment] = []
    while len(segments) < _MAX_SEGMENTS:
        found = _MARKER.search(content, at)
        if found is None:
            raise ImageRejected(_NO_END, len(content))
        marker, start = content[found.start() + 1], found.end()
        if marker == _EOI:
            if last != _EOI:
                raise ImageRejected("JPEG without image data, expected a scan before the end marker", found.start())
            return [*segments, _Segment(marker, start, start)]
        at = start + int.from_bytes(content[start : start + 2], "big")
        if marker == _SOI or not start + 2 <= at <= len(content):
            raise ImageRejected(
                f"JPEG is truncated or corrupt: segment FF{marker:02X} at byte {found.start()} is not whole",
                found.start(),
            )
        segments.append(_Segment(marker, start, at))
        if marker == last:
            return segments
    raise ImageRejected(f"JPEG of more than {_MAX_SEGMENTS:,} segments, expected fewer")


def _frame(content: bytes, segments: Iterable[_Segment]) -> _Frame:
    """Reads the one frame header."""
    frames = [segment for segment in segments if segment.marker in _FRAMES]
    if len(frames) != 1:
        raise ImageRejected(f"JPEG with {len(frames)} frame headers, expected one")
    kind = frames[0].marker
    if kind not in _KNOWN_FRAMES:
        raise ImageRejected(f"JPEG of kind FF{kind:02X}, expected baseline, sequential or progressive")
    bits, height, width, components = struct.unpack_from(">BHHB", content, frames[0].start + 2)
    if bits != _BITS or components not in _COMPONENTS:
        raise ImageRejected(f"JPEG of {components} components of {bits} bits, expected 1, 3 or 4 of {_BITS}")
    return _Frame(width, height, components, kind in _SEQUENTIAL_FRAMES, kind in _HUFFMAN_FRAMES)


def _check_one_scan(content: bytes, frame: _Frame, scan: _Segment, after: _Segment) -> None:
    """Rejects a segment inside the data of a scan that is the whole image; libjpeg would leave the rest gray."""
    whole = frame.sequential and content[scan.start + 2] == frame.components
    if whole and after.marker != _EOI:
        at = after.start - 2
        raise ImageRejected(
            f"JPEG is corrupt: marker FF{after.marker:02X} at byte {at} inside its data, expected the end marker", at
        )


def _first(bodies: Iterable[bytes], head: bytes) -> bytes:
    """Returns the first segment body that starts with `head`, or nothing."""
    return next((body for body in bodies if body.startswith(head)), b"")


def _check_data(jpeg: _Jpeg) -> None:
    """Rejects a size that the data cannot hold, and too many scans."""
    width, height = jpeg.frame.width, jpeg.frame.height
    if width * height > jpeg.data_bytes * _PIXELS_PER_BYTE:
        raise ImageRejected(
            f"JPEG header says {width} x {height} but {jpeg.data_bytes:,} bytes of data follow, "
            f"expected at least one per {_PIXELS_PER_BYTE:,} pixels"
        )
    if jpeg.scans > _MAX_SCANS:
        raise ImageRejected(f"JPEG of {jpeg.scans:,} scans, expected at most {_MAX_SCANS}")
