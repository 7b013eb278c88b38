"""JPEG: kept byte for byte when it stands upright in gray or colour, else encoded anew.

FFD8 ─► segments (marker, length, body) ─► first scan ─► coded data, perhaps more segments and scans ─► FFD9
          │ APP1: EXIF, XMP                  └─ data to measure, then to decode at an eighth of the size
          │ frame: size, components
          └ without APPs and comments: what Pillow gets to see
"""

import io
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from PIL.JpegImagePlugin import JpegImageFile

from components.ingest.images.limits import CheckedImage, ImageLimits, ImageRejected, check_size
from components.ingest.images.orientation import UPRIGHT, read_orientation
from components.ingest.images.redraw import ROTATED, load, store

# Huffman codes spend at least one bit on a block of 64 pixels: 512 pixels a byte; a flat gray picture has 256.
_PIXELS_A_BYTE: Final = 2_000
# Each scan of a progressive file costs a walk over the whole picture; encoders write about ten.
_MAX_SCANS: Final = 100
_MAX_SEGMENTS: Final = 10_000
_BITS: Final = 8
_CMYK_COMPONENTS: Final = 4
_COMPONENTS: Final = (1, 3, _CMYK_COMPONENTS)
_SOI, _EOI, _SOS, _APP1 = 0xD8, 0xD9, 0xDA, 0xE1
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL_FRAMES: Final = frozenset([0xC0, 0xC1, 0xC9])
# APP0 (JFIF) and APP14 (Adobe) tell the colours; the other APPs and comments make no pixel.
_METADATA: Final = frozenset([*range(_APP1, 0xEE), 0xEF, 0xFE])
_EXIF_HEAD: Final = b"Exif\0\0"
_XMP_HEAD: Final = b"http://ns.adobe.com/xap/1.0/\0"
# Coded data holds FF only as FF00 and as restart markers (D0 to D7), which have no length; FF01 has none either.
_MARKER: Final = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")


class _Segment(NamedTuple):
    marker: int
    start: int  # of its two length bytes, which follow the marker
    end: int


class _Frame(NamedTuple):
    width: int
    height: int
    components: int
    sequential: bool  # a component's data is all in one scan


@dataclass(frozen=True)
class _Jpeg:
    frame: _Frame
    orientation: int
    scans: int
    data_bytes: int
    picture: bytes  # the file without metadata


def check_jpeg(content: bytes, limits: ImageLimits) -> CheckedImage:
    """Keeps an upright gray or colour JPEG; turns and converts the others."""
    jpeg = _read(content)
    width, height, components, _ = jpeg.frame
    check_size(width, height, limits)
    _check_data(jpeg)
    changed = [ROTATED] if jpeg.orientation != UPRIGHT else []
    changed += ["CMYK"] if components == _CMYK_COMPONENTS else []
    image = JpegImageFile(io.BytesIO(jpeg.picture))
    if changed:
        load(image)
        return store(image, "JPEG", jpeg.orientation, changed)
    image.draft("L", (1, 1))  # reads all the coded data, yet makes only one pixel in 64
    load(image)
    return CheckedImage(content, width, height, "JPEG", "")


def _read(content: bytes) -> _Jpeg:
    """Reads all but the coded data, which it measures."""
    segments = list(_segments(content))
    scans = [index for index, segment in enumerate(segments) if segment.marker == _SOS]
    if not scans:
        raise ImageRejected("JPEG without picture data, expected a scan before the end marker")
    header, rest = segments[: scans[0] + 1], segments[scans[0] + 1 :]
    frame = _frame(content, segments)
    _check_one_scan(content, frame, header[-1], rest[0])
    data, stop = header[-1].end, rest[-1].end
    kept = [(segment.start - 2, segment.end) for segment in header if segment.marker not in _METADATA]
    view = memoryview(content)
    return _Jpeg(
        frame=frame,
        orientation=read_orientation(_app1(content, header, _EXIF_HEAD), _app1(content, header, _XMP_HEAD)),
        scans=len(scans),
        data_bytes=stop - data,
        picture=b"".join([view[start:end] for start, end in [(0, 2), *kept, (data, stop)]]),
    )


def _segments(content: bytes) -> Iterator[_Segment]:
    """Yields all segments, the end marker included; stray bytes between them are passed over, as libjpeg does."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        found = _MARKER.search(content, at)
        if not found:
            raise ImageRejected("JPEG is truncated: no end marker, expected one after the picture data")
        marker, start = content[found.end() - 1], found.end()
        if marker == _EOI:
            yield _Segment(marker, start, start)
            return
        at = start + int.from_bytes(content[start : start + 2], "big")
        if marker == _SOI or not start + 2 <= at <= len(content):
            raise ImageRejected(
                f"JPEG is truncated or corrupt: segment FF{marker:02X} at byte {start - 2} is not whole"
            )
        yield _Segment(marker, start, at)
    raise ImageRejected(f"JPEG of more than {_MAX_SEGMENTS:,} segments, expected fewer")


def _frame(content: bytes, segments: Iterable[_Segment]) -> _Frame:
    """Reads the one frame header."""
    frames = [segment for segment in segments if segment.marker in _FRAMES]
    if len(frames) != 1:
        raise ImageRejected(f"JPEG with {len(frames)} frame headers, expected one")
    bits, height, width, components = struct.unpack_from(">BHHB", content, frames[0].start + 2)
    if bits != _BITS or components not in _COMPONENTS:
        raise ImageRejected(f"JPEG of {components} components of {bits} bits, expected 1, 3 or 4 of {_BITS}")
    return _Frame(width, height, components, frames[0].marker in _SEQUENTIAL_FRAMES)


def _check_one_scan(content: bytes, frame: _Frame, scan: _Segment, after: _Segment) -> None:
    """Rejects a segment amid the data of a scan that is the whole picture: libjpeg would leave the rest gray."""
    whole = frame.sequential and content[scan.start + 2] == frame.components
    if whole and after.marker != _EOI:
        raise ImageRejected(
            f"JPEG is corrupt: marker FF{after.marker:02X} amid its data, at byte {after.start - 2}, expected the end"
        )


def _app1(content: bytes, header: Iterable[_Segment], head: bytes) -> bytes:
    """Returns the first APP1 segment that starts with `head`, or nothing."""
    bodies = (content[start + 2 : end] for marker, start, end in header if marker == _APP1)
    return next((body for body in bodies if body.startswith(head)), b"")


def _check_data(jpeg: _Jpeg) -> None:
    """Rejects a header that announces more than the data behind it can hold, and scans without end."""
    width, height = jpeg.frame.width, jpeg.frame.height
    if width * height > jpeg.data_bytes * _PIXELS_A_BYTE:
        raise ImageRejected(
            f"JPEG header says {width} x {height} but {jpeg.data_bytes:,} bytes of data follow, "
            f"expected at least one for {_PIXELS_A_BYTE:,} pixels"
        )
    if jpeg.scans > _MAX_SCANS:
        raise ImageRejected(f"JPEG of {jpeg.scans:,} scans, expected at most {_MAX_SCANS}")
