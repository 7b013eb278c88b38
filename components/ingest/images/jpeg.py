"""JPEG: kept byte for byte when it stands upright in gray or colour, else encoded anew.

FFD8 ─► segments (marker, length, body) ─► first scan ─► coded data, perhaps more segments and scans ─► FFD9
          │ APP1: EXIF, XMP                  └─ data to measure, then to read to its end: by our own reader if it is
          │ frame: size, components             there and the file is regular, else decoded at an eighth of the size
          │                                     (of the header alone: only its end is looked for)
          └ without APPs and comments: what Pillow's parser gets to see, if the image must be drawn anew
"""

import io
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from components.ingest.images import perceptual_hash
from components.ingest.images.jpeg_header import check_data
from components.ingest.images.limits import CheckedImage, Handling, ImageLimits, ImageRejected, check_size
from components.ingest.images.orientation import UPRIGHT, read_orientation
from components.ingest.images.redraw import ROTATED, load, store
from components.ingest.images.storage_format import DRAFT, fit
from components.native import checker

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Each scan of a progressive file costs a walk over the whole image; encoders write about ten.
_MAX_SCANS: Final = 100
_MAX_SEGMENTS: Final = 10_000
_BITS: Final = 8
_ESCAPE: Final = 0xFF  # what every marker begins with
_CMYK_COMPONENTS: Final = 4
_COMPONENTS: Final = (1, 3, _CMYK_COMPONENTS)
_SOI, _EOI, _SOS, _APP1 = 0xD8, 0xD9, 0xDA, 0xE1
_THE_END, _DATA_OR_END = frozenset([_EOI]), frozenset([_SOS, _EOI])
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL_FRAMES: Final = frozenset([0xC0, 0xC1, 0xC9])
_HUFFMAN_FRAMES: Final = frozenset([0xC0, 0xC1, 0xC2])
# The others are lossless or hierarchical: TensorFlow cannot decode them, and a decoder that can does not reduce them,
# so that Pillow would write behind the end of the image that it has made room for.
_KNOWN_FRAMES: Final = _SEQUENTIAL_FRAMES | {0xC2, 0xCA}
# APP0 (JFIF) and APP14 (Adobe) tell the colours; the other APPs and comments make no pixel.
_METADATA: Final = frozenset([*range(_APP1, 0xEE), 0xEF, 0xFE])
_EXIF_HEAD: Final = b"Exif\0\0"
_XMP_HEAD: Final = b"http://ns.adobe.com/xap/1.0/\0"
# Coded data holds FF only as FF00 and as restart markers (D0 to D7), which have no length; FF01 has none either.
_MARKER: Final = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")
_MARKERS: Final = frozenset(each for code in range(256) if _MARKER.match(each := bytes([_ESCAPE, code])))
_LONG: Final = 8 * 1024  # bytes of data from which on markers are found faster all at once
# What libjpeg makes of blocks that are missing; and data that they are given for a trial: any bytes but FF will do,
# and all restart markers, of which the data may have ended before any.
_MISSING: Final = frozenset([127, 128])
_SOME: Final = bytes((11 * at * at + 8 * at + 3) % 255 for at in range(256))
_TRIAL: Final = b"".join(_SOME + bytes([0xFF, 0xD0 + at % 8]) for at in range(16)) + _SOME
_NO_END: Final = "JPEG is truncated: no end marker, expected one after the image data"

_Find = Callable[[int], int | None]  # where the next marker is, from a place on


class _Segment(NamedTuple):
    marker: int
    start: int  # of its two length bytes, which follow the marker
    end: int


class _Frame(NamedTuple):
    width: int
    height: int
    components: int
    sequential: bool  # a component's data is all in one scan
    huffman: bool  # else arithmetic codes, whose data may end early


@dataclass(frozen=True)
class _Jpeg:
    frame: _Frame
    orientation: int
    scans: int
    data_bytes: int
    content: bytes
    header: Sequence[_Segment]  # up to the first scan
    stop: int  # where the file's end marker ends

    @property
    def picture(self) -> bytes:
        """The file without metadata and without what comes after its end."""
        kept = [(start - 2, end) for marker, start, end in self.header if marker not in _METADATA]
        view = memoryview(self.content)
        return b"".join([view[start:end] for start, end in [(0, 2), *kept, (self.header[-1].end, self.stop)]])


def check_jpeg(content: bytes, limits: ImageLimits, handling: Handling) -> CheckedImage:
    """Keeps an upright gray or colour JPEG; turns and converts the others, and reduces them if so told."""
    jpeg = _read(content, full=handling.full)
    width, height, components, *_ = jpeg.frame
    check_size(width, height, limits)
    _check_data(jpeg)
    changed = [ROTATED] if jpeg.orientation != UPRIGHT else []
    changed += ["CMYK"] if components == _CMYK_COMPONENTS else []
    if changed or handling.redraws(width, height):
        return store(_decode(jpeg, handling), "JPEG", jpeg.orientation, changed, handling)
    look = _look(jpeg) if handling.full else None
    return CheckedImage(content, width, height, "JPEG", "", look)


def _decode(jpeg: _Jpeg, handling: Handling) -> JpegImageFile:
    """Decodes the image, at a fraction of its size if it will be reduced to less than that."""
    image = JpegImageFile(io.BytesIO(jpeg.picture))
    if handling.store != "original":
        width, height = fit(*image.size, handling.side)
        image.draft(image.mode, (DRAFT * width, DRAFT * height))
    load(image)
    if jpeg.frame.components != _CMYK_COMPONENTS and _ends_missing(image):
        _look(jpeg)
    return image


def _look(jpeg: _Jpeg) -> int | None:
    """Reads all the coded data, yet makes only one pixel in 64 where that is enough to look at."""
    width, height = jpeg.frame.width, jpeg.frame.height
    scale = next((each for each in (checker.SCALE, 4, 2) if min(width, height) // each >= perceptual_hash.SIDE), 1)
    size = -(-width // scale), -(-height // scale)
    regular = checker.regular_gray(jpeg.content, jpeg.stop, width, height) if scale == checker.SCALE else None
    if regular is not None:
        gray = Image.frombytes("L", size, regular)
    else:
        gray = _gray(jpeg.content, size, scale)
        _check_not_cut(jpeg, gray, scale)
    return perceptual_hash.look_of(gray, (width / scale, height / scale))


def _gray(content: bytes, size: tuple[int, int], scale: int) -> Image.Image:
    """Decodes a file to gray, at a fraction of its size.

    Pillow's decoder believes the size that it is told, whatever the file says. So it must be the very one that libjpeg
    will find: that is why the segments are walked as libjpeg walks them, and why there is one frame of a known kind.
    """
    try:
        # Without Pillow's own parser, which would take longer than all the rest of a small file.
        return Image.frombytes("L", size, content, "jpeg", "L", "", scale, 0)
    except ValueError as error:
        raise ImageRejected("JPEG cannot be decoded: its data is broken") from error


def _check_not_cut(jpeg: _Jpeg, gray: Image.Image, scale: int) -> None:
    """Rejects data that ends before the image does, of which libjpeg leaves the rest gray without a word.

    More data behind that of a whole image is passed over. If it changes the image, it took the place of some that
    is missing.
    """
    if not (jpeg.frame.huffman and _ends_missing(gray)):
        return
    end = jpeg.stop - 2
    longer = jpeg.content[:end].rstrip(b"\xff") + _TRIAL + b"\xff\xd9"
    if _gray(longer, gray.size, scale).tobytes() != gray.tobytes():
        raise ImageRejected(f"JPEG is truncated or corrupt: its data ends at byte {end}, before the image does", end)


def _ends_missing(image: Image.Image) -> bool:
    """Whether the last pixel is as if there were no data for it: few images end in that gray otherwise."""
    last = image.getpixel((image.width - 1, image.height - 1))
    return _MISSING.issuperset(last if isinstance(last, tuple) else [last])


def _read(content: bytes, *, full: bool) -> _Jpeg:
    """Reads all but the coded data, which it measures; of the header alone, scans and segments behind it are not."""
    header = _header(content)
    data = header[-1].end
    rest = _segments(content, data, _finder(content, data), _THE_END) if full else [_end(content, data)]
    segments = [*header, *rest]
    frame = _frame(content, segments)
    _check_one_scan(content, frame, header[-1], rest[0])
    told = [content[start + 2 : end] for marker, start, end in header if marker == _APP1]
    return _Jpeg(
        frame=frame,
        orientation=read_orientation(_first(told, _EXIF_HEAD), _first(told, _XMP_HEAD)) if told else UPRIGHT,
        scans=sum(segment.marker == _SOS for segment in segments),
        data_bytes=rest[-1].end - data,
        content=content,
        header=header,
        stop=rest[-1].end,
    )


def _header(content: bytes) -> list[_Segment]:
    """Returns the segments up to the first scan."""
    segments = _segments(content, 2, partial(_next_marker, content), _DATA_OR_END)
    if segments[-1].marker == _EOI:
        at = segments[-1].start - 2
        raise ImageRejected("JPEG without image data, expected a scan before the end marker", at)
    return segments


def _finder(content: bytes, data: int) -> _Find:
    return _finder_all_at_once(content, data) if len(content) - data > _LONG else partial(_next_marker, content)


def _next_marker(content: bytes, at: int) -> int | None:
    found = _MARKER.search(content, at)
    return found.start() if found else None


def _finder_all_at_once(content: bytes, start: int) -> _Find:
    """Finds markers in much coded data, where one byte in a hundred looks like the first of a marker and is none."""
    import numpy as np  # a check of headers does without

    data = np.frombuffer(content, np.uint8, offset=start)
    escapes = np.flatnonzero(data[:-1] == _ESCAPE)
    waiting = iter((escapes[_is_marker()[data[escapes + 1]]] + start).tolist())

    def find(at: int) -> int | None:
        return next((place for place in waiting if place >= at), None)

    return find


@lru_cache(maxsize=1)
def _is_marker() -> "npt.NDArray[np.bool_]":
    """Returns of each byte whether it makes a marker of the FF before it."""
    import numpy as np

    return np.array([bytes([_ESCAPE, code]) in _MARKERS for code in range(256)])


def _end(content: bytes, data: int) -> _Segment:
    """Returns the last end marker: a file that was cut has none."""
    found = content.rfind(b"\xff\xd9", data)
    if found < 0:
        raise ImageRejected(_NO_END, len(content))
    return _Segment(_EOI, found + 2, found + 2)


def _segments(content: bytes, at: int, find: _Find, last: frozenset[int]) -> list[_Segment]:
    """Returns segments from a place on to the first that is to be the last.

    Stray bytes between them are passed over, as by libjpeg.
    """
    segments: list[_Segment] = []
    while len(segments) < _MAX_SEGMENTS:
        found = at if content[at : at + 2] in _MARKERS else find(at)
        if found is None:
            raise ImageRejected(_NO_END, len(content))
        marker, start = content[found + 1], found + 2
        if marker == _EOI:
            return [*segments, _Segment(marker, start, start)]
        at = start + int.from_bytes(content[start : start + 2], "big")
        if marker == _SOI or not start + 2 <= at <= len(content):
            raise ImageRejected(
                f"JPEG is truncated or corrupt: segment FF{marker:02X} at byte {found} is not whole", found
            )
        segments.append(_Segment(marker, start, at))
        if marker in last:
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
    """Rejects a segment amid the data of a scan that is the whole image: libjpeg would leave the rest gray."""
    whole = frame.sequential and content[scan.start + 2] == frame.components
    if whole and after.marker != _EOI:
        at = after.start - 2
        raise ImageRejected(
            f"JPEG is corrupt: marker FF{after.marker:02X} amid its data, at byte {at}, expected the end", at
        )


def _first(bodies: Iterable[bytes], head: bytes) -> bytes:
    """Returns the first body of a segment that starts with `head`, or nothing."""
    return next((body for body in bodies if body.startswith(head)), b"")


def _check_data(jpeg: _Jpeg) -> None:
    """Rejects a header that announces more than the data behind it can hold, and scans without end."""
    check_data(jpeg.frame.width, jpeg.frame.height, jpeg.data_bytes)
    if jpeg.scans > _MAX_SCANS:
        raise ImageRejected(f"JPEG of {jpeg.scans:,} scans, expected at most {_MAX_SCANS}")
