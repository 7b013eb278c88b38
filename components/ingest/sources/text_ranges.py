"""Text files, plain or gzip: divides them into ranges and reads blocks of whole records, in constant memory.

    file ─► window ─► where does its last whole record end? ─► block; the rest goes into the next window

A format defines where its records end: at any line end, or only at those outside quotes (`record_ends.py`). Dividing
and reading use the same function, so they always agree.
"""

import gzip
import itertools
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np

from components.ingest.sources.record_ends import Ints, RecordEnds
from components.ingest.sources.rows import MAX_ROW, Range, bad_file
from components.storage.paths import DataPath, open_whole

SAMPLE = 1 << 20  # bytes of text from which types are inferred
BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_DIVIDE_BLOCK = 4 << 20  # bytes per block while dividing


# Finds the record ends in a window of text. The flag says that no more text follows.
FindEnds = Callable[[bytes, bool], RecordEnds]


@dataclass(frozen=True)
class RecordFormat:
    """Where records end, and how long one may be, because a reader must hold it in memory."""

    find: FindEnds
    longest: int = MAX_ROW  # bytes


@dataclass(frozen=True)
class Block:
    """Whole records."""

    data: bytes
    start: int  # of its first byte in the text
    line: int  # number of its first line in the file, from 1
    ends: RecordEnds

    @property
    def stop(self) -> int:
        """Where the next block begins."""
        return self.start + len(self.data)


@contextmanager
def opened(path: DataPath) -> Iterator[BinaryIO]:
    """Opens a file, decompressed if its name ends in .gz; errors while reading become BadInput."""
    try:
        with ExitStack() as stack:
            if is_gzip(path):
                packed = stack.enter_context(open_whole(path))
                yield cast("BinaryIO", stack.enter_context(gzip.open(packed)))
            else:
                yield stack.enter_context(path.open("rb"))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise bad_file(path, f"damaged or truncated gzip data ({error}); copy or compress it again") from error
    except TimeoutError:  # the store is away: the file is not bad
        raise
    except OSError as error:
        raise bad_file(
            path, f"cannot be read: {error.strerror}; check that the file exists and its permissions"
        ) from error


def is_gzip(path: DataPath) -> bool:
    """Whether the file name says gzip; such a file can only be read from its start."""
    return path.name.lower().endswith(".gz")


def whole(path: DataPath) -> Range:
    """Returns the range of all text in a file, without a byte order mark; rejects UTF-16."""
    with opened(path) as stream:
        head = stream.read(len(BOM))
    if head.startswith(_UTF16):
        raise bad_file(path, "is UTF-16; expected UTF-8: save it again in that encoding")
    start, size = len(BOM) if head == BOM else 0, path.stat().st_size
    return Range("", start, size, 1, size - start)


def first_block(
    path: DataPath, records: RecordFormat, part: Range, size: int, blank: bytes | None = None
) -> Block | None:
    """Returns the first block of about `size` bytes that holds more than `blank` bytes (white space by default)."""
    return next((block for block in blocks(path, records, part, size) if block.data.strip(blank)), None)


def blocks(path: DataPath, records: RecordFormat, part: Range, size: int) -> Iterator[Block]:
    """Reads a range in blocks of whole records of about `size` bytes; a gzip file from `part.start` to its end."""
    stop = None if is_gzip(path) else part.stop
    with opened(path) as stream:
        stream.seek(part.start)
        window = _TextWindow(stream, path, part.start, stop)
        line = part.first
        while block := window.next_block(records, line, size):
            yield block
            line += count_lines(block.data)


def count_lines(data: bytes) -> int:
    r"""Returns the number of line ends: "\n", "\r\n" and "\r" each end a line, as for Python's open()."""
    ends = data.count(b"\n")
    return ends + data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else ends


def lines_in_order(block: Block, rows: int) -> Ints | None:
    """Returns the line of each of `rows` records if every line of a block is one; None if some are blank or continue.

    Lines inside quotes have to be counted one by one.
    """
    ends_open = not block.data.endswith((b"\n", b"\r"))
    lines = count_lines(block.data) + ends_open
    return np.arange(block.line, block.line + rows) if lines == rows and b'"' not in block.data else None


def divide(path: DataPath, records: RecordFormat, body: Range, target: int) -> list[Range]:
    """Divides the records of a file into ranges of about equal size, at most about `target` bytes."""
    if is_gzip(path):
        return [body]
    total = body.stop - body.start
    pieces = max(1, -(-total // max(target, 1)))
    goals = (body.start + total * number // pieces for number in range(1, pieces))
    cuts = [(body.start, body.first), *_cuts(blocks(path, records, body, _DIVIDE_BLOCK), goals), (body.stop, 0)]
    return [
        Range(body.path, start, stop, first, stop - start)
        for (start, first), (stop, _) in itertools.pairwise(cuts)
        if start < stop
    ]


def _cuts(found: Iterator[Block], goals: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yields the first end of a record at or after each goal, and the number of the line that follows."""
    goal = next(goals, None)
    while goal is not None and (block := next(found, None)):  # nothing after the last goal is read
        at, line = 0, block.line
        while goal is not None and goal <= block.stop:
            cut = block.ends.after(goal - block.start)
            line += count_lines(block.data[at:cut])
            at = cut
            yield block.start + cut, line
            while goal is not None and goal <= block.start + cut:
                goal = next(goals, None)


class _TextWindow:
    """Text that was read and not yet returned in a block."""

    def __init__(self, stream: BinaryIO, path: DataPath, start: int, stop: int | None) -> None:
        self._stream, self._path, self._stop = stream, path, stop
        self._start = start  # of the text in the window
        self._text = b""
        self._ended = False

    def next_block(self, records: RecordFormat, line: int, size: int) -> Block | None:
        """Returns the next whole records, about `size` bytes of them; None at the end."""
        wide, longest = size, records.longest
        while window := self._window(wide):
            final = self._ended and len(window) == len(self._text)
            # At the longest record there is no waiting for more text: an open quote counts as never closed.
            ends = records.find(window, final or wide >= longest)
            end = _end(ends, len(window) if final else 0, grown=wide > size)
            if end:
                return self._take(window[:end], line, ends)
            if wide >= longest:
                raise bad_file(
                    self._path,
                    f"line {line} is longer than ingest.max_row_mb = {longest >> 20}; expected a text file with one "
                    "record per line: check the file, or raise the setting if such rows are expected",
                )
            wide = min(2 * wide, longest)
        return None

    def _window(self, size: int) -> bytes:
        self._fill(size)
        return self._text[:size]

    def _take(self, data: bytes, line: int, ends: RecordEnds) -> Block:
        block = Block(data, self._start, line, ends)
        self._text = self._text[len(data) :]
        self._start = block.stop
        return block

    def _fill(self, size: int) -> None:
        """Reads until the window has `size` bytes or the range ends."""
        while len(self._text) < size and not self._ended:
            here = self._start + len(self._text)
            wanted = size - len(self._text)
            more = self._stream.read(wanted if self._stop is None else min(wanted, self._stop - here))
            self._text = self._text + more if self._text else more
            self._ended = not more
            if self._ended and self._stop is not None and here < self._stop:
                raise bad_file(
                    self._path, f"ends at byte {here}, expected {self._stop}; the file changed while it was read"
                )


def _end(ends: RecordEnds, final: int, *, grown: bool) -> int:
    """Returns where a block ends in its window, or 0; a window that grew for one long record returns only that one."""
    last = final or ends.last()
    return ends.after(1) if grown and last else last
