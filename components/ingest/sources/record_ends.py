"""Finds where the records of a text end: at line ends, for CSV only at those outside quoted cells.

    window of text ─► quotes ─► pairs that open and close a cell ─► RecordEnds

A quote opens a cell only where a cell begins, and is doubled inside one. A cell that is not closed correctly spoils its
own line only.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LF, CR, QUOTE = b'\n\r"'
_LINE_END = re.compile(rb"[\r\n]")

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class RecordEnds:
    """Where the records of a window of text end; a window begins with a record."""

    data: bytes
    opens: Ints  # where quoted cells begin
    closes: Ints  # where they end
    broken: Ints  # where cells begin that are not closed correctly
    pending: int  # where a cell begins that does not end in this window, or the end of the window

    def last(self) -> int:
        """Returns the end of the last whole record, or 0."""
        end = self.data.rfind(b"\n", 0, self.pending) + 1
        while end and (cell := self._around(end - 1)) is not None:
            end = self.data.rfind(b"\n", 0, int(self.opens[cell])) + 1
        return end

    def after(self, position: int) -> int:
        """Returns the first end of a record at or after `position`, or the end of the window."""
        at = self.data.find(b"\n", max(position - 1, 0))
        while at >= 0 and (cell := self._around(at)) is not None:
            at = self.data.find(b"\n", int(self.closes[cell]))
        return at + 1 or len(self.data)

    def inside(self, positions: Ints) -> Flags:
        """Returns which positions are inside quotes."""
        if not len(self.opens):
            return np.zeros(len(positions), np.bool_)
        cell = np.searchsorted(self.opens, positions) - 1
        inside: Flags = (cell >= 0) & (self.closes[cell] > positions)
        return inside

    def _around(self, position: int) -> int | None:
        cell = int(np.searchsorted(self.opens, position)) - 1
        return cell if cell >= 0 and self.closes[cell] > position else None


def find_line_ends(window: bytes, final: bool) -> RecordEnds:  # noqa: ARG001 - a line never waits for more text
    """Finds the ends of records that are lines."""
    return RecordEnds(window, _NONE, _NONE, _NONE, len(window))


def find_quoted_ends(window: bytes, final: bool, delimiter: bytes) -> RecordEnds:
    """Finds the ends of CSV records.

    Args:
        window: text.
        final: whether no more text follows that could close an open cell.
        delimiter: sign between cells.
    """
    if b'"' not in window:
        return find_line_ends(window, final)
    # Quotes at the end of a window may continue in the next one. No line ends after them, so this one can ignore them.
    known = len(window) if final else len(window.rstrip(b'"'))
    text = np.frombuffer(window, np.uint8)
    at = np.flatnonzero(text[:known] == QUOTE)
    edge = np.zeros(256, np.bool_)
    edge[[delimiter[0], LF, CR]] = True
    return _pair_alternating(window, text, at, edge, final) or _pair_one_by_one(window, text, at, edge, final)


def _pair_alternating(window: bytes, text: Bytes, at: Ints, edge: Flags, final: bool) -> RecordEnds | None:
    """Pairs quotes that alternately open and close cells, all at once; None if they do not alternate.

    A doubled quote inside a cell closes it and opens it again with nothing in between, so the result is right.
    """
    opens, closes = at[::2], at[1::2]
    edge = edge.copy()
    edge[QUOTE] = True
    is_open = len(opens) > len(closes)
    alternate = edge[text[opens[opens > 0] - 1]].all() and edge[text[closes[closes + 1 < len(text)] + 1]].all()
    if not alternate or (is_open and final):
        return None
    pending = int(opens[-1]) if is_open else len(window)
    return RecordEnds(window, opens[: len(closes)], closes, _NONE, pending)


def _pair_one_by_one(window: bytes, text: Bytes, at: Ints, edge: Flags, final: bool) -> RecordEnds:
    """Pairs the quotes of a window; a cell that is not closed correctly ends with its line."""
    cells: list[tuple[int, int]] = []
    broken: list[int] = []
    runs = _quote_runs(text, at, edge)
    here, resume = 0, 0  # the next run; where to read on after a broken cell
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
        else:  # the runs in between are read again, because they may open cells on later lines
            broken.append(run.first)
            line_end = _LINE_END.search(window, run.first)
            resume = line_end.end() if line_end else len(window)
    return _quoted_ends(window, cells, broken, len(window))


def _quoted_ends(window: bytes, cells: list[tuple[int, int]], broken: list[int], pending: int) -> RecordEnds:
    opens, closes = np.array(cells, np.int64).reshape(-1, 2).T
    return RecordEnds(window, opens, closes, np.array(broken, np.int64), pending)


class _QuoteRun(NamedTuple):
    """Adjacent quotes.

    Pairs inside a cell are quotes of its text, so only the parity of a run matters: an odd run opens or closes a cell,
    and an even run that opens a cell closes it too.
    """

    first: int
    last: int
    odd: bool
    opening: bool  # a cell may begin here
    closing: bool  # a cell may end here


def _quote_runs(text: Bytes, at: Ints, edge: Flags) -> list[_QuoteRun]:
    gaps = np.flatnonzero(np.diff(at) > 1)
    first, last = at[np.append(0, gaps + 1)], at[np.append(gaps, len(at) - 1)]
    opening = edge[text[first - 1]] | (first == 0)
    closing = edge[text[np.minimum(last + 1, len(text) - 1)]] | (last == len(text) - 1)
    facts = (first, last, (last - first) % 2 == 0, opening, closing)
    return [_QuoteRun(*run) for run in zip(*(fact.tolist() for fact in facts), strict=True)]
