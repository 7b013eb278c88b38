"""The size of the frames in an AVIF file, from its coded data: libavif decodes a frame whatever size the header states.

meta/iloc: items, moov/…/stco: first sample of a track ─► OBUs (units of AV1) ─► sequence headers ─► maximum size

Nothing else of the file is parsed, and no item that is not AV1, such as EXIF.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from components.ingest.images.limits import ImageRejected

_TRACK = (b"moov", b"trak", b"mdia", b"minf", b"stbl")
_OFFSETS = {b"stco": 4, b"co64": 8}  # bytes of an offset
_BOX, _LONG_BOX, _FULL_BOX = 8, 16, 4  # bytes: header of a box, with a 64-bit size, and version and flags after it
_AV1_ITEM = re.compile(rb"(?:\x02...(..)|\x03...(....))..av01", re.DOTALL)  # infe, with the id of the item
_SEQUENCE_HEADER = 1  # type of OBU
_MAX_ITEMS, _MAX_UNITS, _MAX_BOXES = 1024, 64, 4096
_TIERED = 7  # levels above it have a tier

_Span = tuple[int, int]  # of bytes


def frame_sizes(content: bytes) -> Iterator[tuple[int, int]]:
    """Yields the maximum width and height of every sequence of frames."""
    try:
        for data in _coded_data(content):
            yield from map(_size, islice(_sequence_headers(data), _MAX_UNITS))
    except IndexError as error:
        raise ImageRejected(
            "AVIF is truncated or corrupt: its items or frames end before their announced size"
        ) from error


class _Bits:
    """Reads big-endian numbers of any number of bits."""

    def __init__(self, data: bytes) -> None:
        self._value, self._left = int.from_bytes(data, "big"), 8 * len(data)

    def read(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise IndexError
        return self._value >> self._left & ((1 << count) - 1)


def _coded_data(content: bytes) -> Iterator[bytes]:
    whole = [(0, len(content))]
    for start, end in _boxes(content, whole, b"meta"):
        inner = [(start + _FULL_BOX, end)]
        for at, stop in _boxes(content, inner, b"iloc"):
            yield from _items(content, inner, content[at : min(stop, at + (1 << 16))])
    tables = whole
    for kind in _TRACK:
        tables = _boxes(content, tables, kind)
    for kind, width in _OFFSETS.items():
        for at, _ in _boxes(content, tables, kind):
            first = int.from_bytes(content[at + 8 : at + 8 + width], "big")
            yield content[first:]


def _boxes(content: bytes, spans: Iterable[_Span], wanted: bytes) -> list[_Span]:
    """Returns the contents of all boxes of a kind in some spans; a span ends at a malformed box, as for libavif."""
    found, seen = [], 0
    for start, stop in spans:
        at = start
        while at + _BOX <= stop:
            size, kind, head = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8], _BOX
            if size == 1:
                size, head = int.from_bytes(content[at + 8 : at + 16], "big"), _LONG_BOX
            end = at + size if size else stop
            seen += 1
            if seen > _MAX_BOXES:
                raise ImageRejected(f"AVIF of more than {_MAX_BOXES:,} boxes; save it again")
            if end < at + head or end > stop:
                break
            if kind == wanted:
                found.append((at + head, end))
            at = end
    return found


def _items(content: bytes, inner: Sequence[_Span], iloc: bytes) -> Iterator[bytes]:
    """Yields the data of each AV1 item that a box `iloc` of a box `meta` locates."""
    coded = _av1_items(content, inner)
    idat = next((at for at, _ in _boxes(content, inner, b"idat")), len(content))
    bits = _Bits(iloc)
    version = bits.read(8)
    bits.read(24)
    offset_bits, length_bits, base_bits, index_bits = (8 * bits.read(4) for _ in range(4))
    count, total = bits.read(32 if version > 1 else 16), 0
    if count > _MAX_ITEMS:
        raise ImageRejected(f"AVIF of {count:,} items, expected at most {_MAX_ITEMS:,}")
    for _ in range(count):
        item = bits.read(32 if version > 1 else 16)
        in_idat = bits.read(16) & 15 if version else 0
        bits.read(16)
        base, pieces = bits.read(base_bits) + (idat if in_idat else 0), []
        for _ in range(bits.read(16)):
            bits.read(index_bits if version else 0)
            start, length = base + bits.read(offset_bits), bits.read(length_bits)
            pieces.append(content[start : start + length] if length else content[start:])
            total += len(pieces[-1])
            if total > len(content):
                raise ImageRejected("AVIF items overlap; expected each in its own bytes")
        if item in coded:
            yield b"".join(pieces)


def _av1_items(content: bytes, inner: Sequence[_Span]) -> set[int]:
    """Returns the ids of the items that are AV1."""
    lists = [(at + _FULL_BOX + (4 if content[at] else 2), end) for at, end in _boxes(content, inner, b"iinf")]
    entries = (_AV1_ITEM.match(content, *span) for span in _boxes(content, lists, b"infe"))
    return {int.from_bytes(found[1] or found[2], "big") for found in entries if found}


def _sequence_headers(data: bytes) -> Iterator[bytes]:
    """Yields the sequence headers among the OBUs of an item."""
    at = 0
    while at < len(data):
        head = data[at]
        at += 2 if head & 4 else 1
        size, shift = len(data) - at, 0
        if head & 2:
            size = 0
            while True:
                size |= (data[at] & 127) << shift
                at, shift = at + 1, shift + 7
                if data[at - 1] < 128:  # noqa: PLR2004 - the last byte of a number
                    break
        if head >> 3 == _SEQUENCE_HEADER:
            yield data[at : at + min(size, 256)]
        at += size


def _size(header: bytes) -> tuple[int, int]:
    """Returns the maximum size of a frame; AV1 specification, section 5.5."""
    bits = _Bits(header)
    bits.read(4)
    if bits.read(1):  # a still image: a short header
        bits.read(5)
    else:
        if bits.read(1):
            raise ImageRejected("AVIF with AV1 timing information is not supported; save it again as a still image")
        has_delay = bits.read(1)
        for _ in range(bits.read(5) + 1):
            bits.read(12)
            bits.read(1 if bits.read(5) > _TIERED else 0)
            bits.read(4 if has_delay and bits.read(1) else 0)
    width_bits, height_bits = bits.read(4) + 1, bits.read(4) + 1
    return bits.read(width_bits) + 1, bits.read(height_bits) + 1
