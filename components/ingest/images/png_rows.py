"""Reads all rows of a PNG in constant memory, and rejects missing rows and unknown filters.

IDAT bodies ─► inflated in pieces ─► [filter byte, pixels] [filter byte, pixels] …, pass by pass
                                      └─ 0 to 4?                                    └─ as many bytes as expected?
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from components.ingest.images.limits import ImageRejected

_LAST_FILTER: Final = 4
_ONE_PASS: Final = ((0, 0, 1, 1),)
# First x, first y, step of x, step of y.
_ADAM7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_STEP: Final = 16 * 1024  # compressed bytes per step: at most 16 MB inflated
_EXTRA: Final = 64 * 1024  # inflated bytes that may follow the rows


class Pass(NamedTuple):
    """Rows of equal length; an interlaced image has up to seven passes, any other image has one."""

    stride: int  # bytes per row: its filter, then its pixels
    rows: int


def passes_of(width: int, height: int, bits: int, *, interlaced: bool) -> list[Pass]:
    """Returns the passes that hold pixels, for pixels of `bits` bits."""
    steps = _ADAM7 if interlaced else _ONE_PASS
    sizes = [(len(range(x, width, dx)), len(range(y, height, dy))) for x, y, dx, dy in steps]
    return [Pass(1 + (columns * bits + 7) // 8, rows) for columns, rows in sizes if columns and rows]


def raw_bytes(passes: Iterable[Pass]) -> int:
    """Returns the inflated size of the image data."""
    return sum(stride * rows for stride, rows in passes)


def check_rows(content: bytes, data: Iterable[tuple[int, int]], passes: Sequence[Pass]) -> None:
    """Rejects rows that differ from `passes`; `data` has start and end of their compressed bytes in `content`."""
    expected = raw_bytes(passes)
    found = _check_filters(_inflate(content, data, expected + _EXTRA), passes)
    if not expected <= found <= expected + _EXTRA:
        raise ImageRejected(f"PNG is corrupt: {found:,} bytes of image, expected {expected:,}")


def _inflate(content: bytes, data: Iterable[tuple[int, int]], most: int) -> Iterator[bytes]:
    """Yields the rows in pieces; stops at the end of the stream or after more than `most` bytes."""
    view = memoryview(content)
    stream = zlib.decompressobj()
    for start, end in data:
        for at in range(start, end, _STEP):
            piece = stream.decompress(view[at : min(at + _STEP, end)])
            yield piece
            most -= len(piece)
            if stream.eof or most < 0:
                return
    raise ImageRejected("PNG is truncated: its compressed data has no end")


def _check_filters(pieces: Iterable[bytes], passes: Iterable[Pass]) -> int:
    """Returns the number of bytes in `pieces`; rejects a row that does not start with a known filter."""
    remaining = iter(passes)
    stride, rows = next(remaining)
    total = next_row = 0
    for piece in pieces:
        while rows and next_row < total + len(piece):
            here = next_row - total
            filters = piece[here : here + stride * rows : stride]
            if max(filters) > _LAST_FILTER:
                raise ImageRejected(f"PNG is corrupt: row filter {max(filters)}, expected 0 to {_LAST_FILTER}")
            next_row += stride * len(filters)
            rows -= len(filters)
            if not rows:
                stride, rows = next(remaining, (0, 0))
        total += len(piece)
    return total
