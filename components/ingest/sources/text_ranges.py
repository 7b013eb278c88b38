"""Text files, plain or gzip: cut into ranges and read in blocks of whole records, so that memory stays flat.

    file ─► window ─► where does its last whole record end? ─► block, and the rest goes into the next window

A format says where its records end (`Ends`): at any line end, or only at those outside quotes. Dividing and reading
ask the same object, so they never disagree on where a record ends.
"""

import gzip
import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.errors import BadInput
from components.ingest.sources.rows import Range
from components.records.quarantine import printable
from components.storage.paths import DataPath, open_whole

SAMPLE = 1 << 20  # bytes of text from which types are inferred
LONGEST = 64 << 20  # bytes of one record: what a reader must be able to hold
LARGEST = 3.4028234663852886e38  # of a 32-bit float, the only floats of a tf.Example

BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_PIECE = 4 << 20  # bytes that are scanned at once
_SHOWN = 60  # characters of a value in a reason

LF, CR, QUOTE = b'\n\r"'
_LINE_END = re.compile(rb"[\r\n]")

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
_NONE: Ints = np.empty(0, np.int64)


class Ends(Protocol):
    """Where the records of a window of text end; a window begins with a record."""

    def last(self) -> int:
        """Returns the end of its last whole record, or 0."""

    def after(self, position: int) -> int:
        """Returns the first end of a record at `position` or later, or the window's end."""


E = TypeVar("E", bound=Ends)
# Finds the ends in a window. The flag tells that no more text follows which could close what is open.
FindEnds = Callable[[bytes, bool], E]


@dataclass(frozen=True)
class LineEnds:
    """Every line is a record."""

    data: bytes

    def last(self) -> int:
        """Returns the end of the last whole line."""
        return self.data.rfind(b"\n") + 1

    def after(self, position: int) -> int:
        """Returns the first end of a line at `position` or later."""
        return self.data.find(b"\n", max(position - 1, 0)) + 1 or len(self.data)


@dataclass(frozen=True)
class QuotedEnds:
    """Records end at line ends outside quotes; quotes count where a cell begins, and are doubled inside one."""

    data: bytes
    opens: Ints  # where quoted cells begin
    closes: Ints  # where they end
    broken: Ints  # where cells begin that are not closed as they should: each spoils its line only
    pending: int  # where a cell begins whose end is not in sight, or the window's end

    def last(self) -> int:
        """Returns the end of the last line that ends outside quotes."""
        end = self.data.rfind(b"\n", 0, self.pending) + 1
        while end and (cell := self._around(end - 1)) is not None:
            end = self.data.rfind(b"\n", 0, int(self.opens[cell])) + 1
        return end

    def after(self, position: int) -> int:
        """Returns the first line end outside quotes at `position` or later."""
        at = self.data.find(b"\n", max(position - 1, 0))
        while at >= 0 and (cell := self._around(at)) is not None:
            at = self.data.find(b"\n", int(self.closes[cell]))
        return at + 1 or len(self.data)

    def inside(self, positions: Ints) -> Flags:
        """Returns which of these positions are inside quotes."""
        if not len(self.opens):
            return np.zeros(len(positions), np.bool_)
        cell = np.searchsorted(self.opens, positions) - 1
        inside: Flags = (cell >= 0) & (self.closes[cell] > positions)
        return inside

    def _around(self, position: int) -> int | None:
        cell = int(np.searchsorted(self.opens, position)) - 1
        return cell if cell >= 0 and self.closes[cell] > position else None


def find_line_ends(window: bytes, final: bool) -> LineEnds:  # noqa: ARG001 - lines have nothing to wait for
    """Finds records that are lines."""
    return LineEnds(window)


def find_quoted_ends(window: bytes, final: bool, delimiter: bytes) -> QuotedEnds:
    """Finds records that may have line ends inside quotes."""
    if b'"' not in window:
        return QuotedEnds(window, _NONE, _NONE, _NONE, len(window))
    # Quotes at a window's end may go on in the next one. No line ends behind them, so they do not matter in this one.
    known = len(window) if final else len(window.rstrip(b'"'))
    text = np.frombuffer(window, np.uint8)
    at = np.flatnonzero(text[:known] == QUOTE)
    edge = np.zeros(256, np.bool_)
    edge[[delimiter[0], LF, CR]] = True
    return _pair_by_turns(window, text, at, edge, final) or _pair_one_by_one(window, text, at, edge, final)


def _pair_by_turns(window: bytes, text: Bytes, at: Ints, edge: Flags, final: bool) -> QuotedEnds | None:
    """Pairs quotes that open and close cells by turns, all at once; None if they do not.

    A quote that is doubled inside a cell closes it and opens it again: nothing is in between, so the cells are right.
    """
    opens, closes = at[::2], at[1::2]
    edge = edge.copy()
    edge[QUOTE] = True
    is_open = len(opens) > len(closes)
    by_turns = edge[text[opens[opens > 0] - 1]].all() and edge[text[closes[closes + 1 < len(text)] + 1]].all()
    if not by_turns or (is_open and final):
        return None
    pending = int(opens[-1]) if is_open else len(window)
    return QuotedEnds(window, opens[: len(closes)], closes, _NONE, pending)


def _pair_one_by_one(window: bytes, text: Bytes, at: Ints, edge: Flags, final: bool) -> QuotedEnds:
    """Pairs the quotes of a window; a cell that is not closed as it should ends with its line."""
    cells: list[tuple[int, int]] = []
    broken: list[int] = []
    runs = _quote_runs(text, at, edge)
    here, resume = 0, 0  # the next run; where text is to be read again behind a broken cell
    while here < len(runs):
        run = runs[here]
        here += 1
        if not run.opening or run.first < resume:
            continue
        close = here - 1 if not run.odd else next((other for other in range(here, len(runs)) if runs[other].odd), None)
        if close is None and not final:
            return _quoted_ends(window, cells, broken, run.first)
        if close is not None and runs[close].closing:
            cells.append((run.first, runs[close].last))
            here = close + 1
        else:  # the runs between are looked at again: they may open cells of their own, on later lines
            broken.append(run.first)
            resume = _line_end(window, run.first)
    return _quoted_ends(window, cells, broken, len(window))


def _quoted_ends(window: bytes, cells: list[tuple[int, int]], broken: list[int], pending: int) -> QuotedEnds:
    opens, closes = np.array(cells, np.int64).reshape(-1, 2).T
    return QuotedEnds(window, opens, closes, np.array(broken, np.int64), pending)


class _Run(NamedTuple):
    """Quotes that stand next to each other.

    Pairs inside a cell are quotes of its text, so only the parity of a run matters: an odd one opens or closes a cell,
    and an even one that opens a cell closes it too.
    """

    first: int
    last: int
    odd: bool
    opening: bool  # a cell may begin here
    closing: bool  # a cell may end here


def _quote_runs(text: Bytes, at: Ints, edge: Flags) -> list[_Run]:
    gaps = np.flatnonzero(np.diff(at) > 1)
    first, last = at[np.append(0, gaps + 1)], at[np.append(gaps, len(at) - 1)]
    opening = edge[text[first - 1]] | (first == 0)
    closing = edge[text[np.minimum(last + 1, len(text) - 1)]] | (last == len(text) - 1)
    facts = (first, last, (last - first) % 2 == 0, opening, closing)
    return [_Run(*run) for run in zip(*(fact.tolist() for fact in facts), strict=True)]


def _line_end(window: bytes, position: int) -> int:
    found = _LINE_END.search(window, position)
    return found.end() if found else len(window)


@dataclass(frozen=True)
class Block(Generic[E]):
    """Whole records."""

    data: bytes
    start: int  # of its first byte in the text
    line: int  # number of its first line in the file, from 1
    ends: E

    @property
    def stop(self) -> int:
        """Where the next block begins."""
        return self.start + len(self.data)


@contextmanager
def opened(path: DataPath) -> Iterator[BinaryIO]:
    """Opens a file, unpacked if its name says gzip; what fails while it is read names the file."""
    try:
        with ExitStack() as stack:
            if is_gzip(path):
                packed = stack.enter_context(open_whole(path))
                yield cast("BinaryIO", stack.enter_context(gzip.open(packed)))
            else:
                yield stack.enter_context(path.open("rb"))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{shown(path)}: damaged or cut gzip data ({error}); fetch or pack it again") from error
    except OSError as error:
        raise BadInput(
            f"{shown(path)}: cannot be read: {error.strerror}; check that it is there, and its mode"
        ) from error


def is_gzip(path: DataPath) -> bool:
    """Returns whether a file's name says that it is packed; such a file cannot be entered in its middle."""
    return path.name.lower().endswith(".gz")


def shown(path: DataPath) -> str:
    """Returns a path for a message."""
    return printable(str(path))


def shortened(text: str) -> str:
    """Returns a value for a message: not too long."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def out_of_range(array: pa.Array) -> Flags:
    """Returns which floats are not a number, infinite, or would be so in a record."""
    wrong: Flags = ~(np.abs(array.to_numpy(zero_copy_only=False)) <= LARGEST)
    return wrong & array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else wrong


def whole(path: DataPath) -> Range:
    """Returns all text of a file, without a byte order mark; refuses what is not UTF-8 from its first bytes on."""
    with opened(path) as stream:
        head = stream.read(len(BOM))
    if head.startswith(_UTF16):
        raise BadInput(f"{shown(path)}: is UTF-16; expected UTF-8: save it again in that encoding")
    start, size = len(BOM) if head == BOM else 0, path.stat().st_size
    return Range("", start, size, 1, size - start)


def blocks(path: DataPath, find: FindEnds[E], part: Range, size: int) -> Iterator[Block[E]]:
    """Reads text in blocks of whole records of about `size` bytes; of a gzip file all that follows `part.start`."""
    stop = None if is_gzip(path) else part.stop
    with opened(path) as stream:
        stream.seek(part.start)
        window = _Window(stream, path, part.start, stop)
        line = part.first
        while block := window.next_block(find, line, size):
            yield block
            line += count_lines(block.data)


def count_lines(data: bytes) -> int:
    r"""Returns how many lines end in a text: "\n", "\r\n" and "\r" all end one, as they do for Python's open()."""
    ends = data.count(b"\n")
    return ends + data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else ends


def divide(path: DataPath, find: FindEnds[E], body: Range, target: int) -> list[Range]:
    """Cuts the records of a file into ranges of about equal size, at most about `target` bytes."""
    if is_gzip(path):
        return [body]
    total = body.stop - body.start
    pieces = max(1, -(-total // max(target, 1)))
    goals = (body.start + total * number // pieces for number in range(1, pieces))
    cuts = [(body.start, body.first), *_cuts(blocks(path, find, body, _PIECE), goals), (body.stop, 0)]
    return [
        Range(body.path, start, stop, first, stop - start)
        for (start, first), (stop, _) in itertools.pairwise(cuts)
        if start < stop
    ]


def _cuts(found: Iterator[Block[E]], goals: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yields the first end of a record at or after each goal, and the number of the line that follows."""
    goal = next(goals, None)
    while goal is not None and (block := next(found, None)):  # what is behind the last goal need not be read
        at, line = 0, block.line
        while goal is not None and goal <= block.stop:
            cut = block.ends.after(goal - block.start)
            line += count_lines(block.data[at:cut])
            at = cut
            yield block.start + cut, line
            while goal is not None and goal <= block.start + cut:
                goal = next(goals, None)


class _Window:
    """Text that was read and not yet handed out."""

    def __init__(self, stream: BinaryIO, path: DataPath, start: int, stop: int | None) -> None:
        self._stream, self._path, self._stop = stream, path, stop
        self._start = start  # of the text at hand
        self._text = b""
        self._ended = False

    def next_block(self, find: FindEnds[E], line: int, size: int) -> Block[E] | None:
        """Returns the next whole records, about `size` bytes of them; None at the end."""
        wide = size
        while window := self._window(wide):
            final = self._ended and len(window) == len(self._text)
            # At the longest record no more text is waited for: a quote that is still open will never be closed.
            ends = find(window, final or wide >= LONGEST)
            end = _end(ends, len(window) if final else 0, grown=wide > size)
            if end:
                return self._take(window[:end], line, ends)
            if wide >= LONGEST:
                raise BadInput(
                    f"{shown(self._path)}: line {line} is longer than {LONGEST >> 20} MB; is this a text file with a "
                    "record a line?"
                )
            wide = min(2 * wide, LONGEST)
        return None

    def _window(self, size: int) -> bytes:
        self._fill(size)
        return self._text[:size]

    def _take(self, data: bytes, line: int, ends: E) -> Block[E]:
        block = Block(data, self._start, line, ends)
        self._text = self._text[len(data) :]
        self._start = block.stop
        return block

    def _fill(self, size: int) -> None:
        """Reads until `size` bytes are at hand or the range ends."""
        while len(self._text) < size and not self._ended:
            here = self._start + len(self._text)
            wanted = size - len(self._text)
            more = self._stream.read(wanted if self._stop is None else min(wanted, self._stop - here))
            self._text = self._text + more if self._text else more
            self._ended = not more
            if self._ended and self._stop is not None and here < self._stop:
                raise BadInput(
                    f"{shown(self._path)}: ends at byte {here}, {self._stop} expected; was it cut while it was read?"
                )


def _end(ends: Ends, final: int, *, grown: bool) -> int:
    """Returns where a block ends in its window, or 0; a window that grew for the sake of one record gives only that."""
    last = final or ends.last()
    return ends.after(1) if grown and last else last
