"""Records of a block of CSV text: where each begins and ends, its line, and how many cells it has."""

from dataclasses import dataclass

import numpy as np

from components.ingest.sources.record_ends import CR, LF, Flags, Ints
from components.ingest.sources.text_ranges import Block

NOT_CLOSED = "a quoted cell is not closed, or text follows its closing quote"
BLANK = b" \r\n"  # no tab: in a TSV file that is a row of empty cells


@dataclass(frozen=True)
class CsvRecords:
    """The records of a block without their line ends, blank ones included."""

    data: bytes
    starts: Ints
    stops: Ints
    lines: Ints  # number of the first line of each
    widths: Ints  # cells of each
    broken: Flags

    @classmethod
    def of(cls, block: Block, delimiter: bytes) -> "CsvRecords":
        """Splits a block into records."""
        text, quoted = np.frombuffer(block.data, np.uint8), block.ends
        line_ends = np.flatnonzero((text == LF) | ((text == CR) & (np.append(text[1:], 0) != LF)))
        ends = line_ends[~quoted.inside(line_ends)]
        starts, stops = np.append(0, ends + 1), np.append(ends, len(text))
        stops[:-1] -= (text[ends] == LF) & (text[ends - 1] == CR) & (ends > starts[:-1])
        delimiters = np.flatnonzero(text == delimiter[0])
        delimiters = delimiters[~quoted.inside(delimiters)]
        widths = np.bincount(_records_at(starts, delimiters), minlength=len(starts)) + 1
        broken = np.zeros(len(starts), np.bool_)
        broken[_records_at(starts, quoted.broken[quoted.broken < len(text)])] = True
        return cls(block.data, starts, stops, block.line + np.searchsorted(line_ends, starts), widths, broken)

    def __len__(self) -> int:
        return len(self.starts)

    def text(self, row: int) -> bytes:
        """Returns the bytes of a record."""
        return self.data[self.starts[row] : self.stops[row]]

    def well_formed(self, width: int) -> list[int]:
        """Returns the well-formed records with `width` cells."""
        rows: list[int] = np.flatnonzero((self.widths == width) & ~self.broken & (self.stops > self.starts)).tolist()
        return rows

    def is_blank(self, row: int) -> bool:
        """Whether a record is a blank line, which is no row."""
        return not self.text(row).strip(BLANK)

    def faults(self, width: int, like: str) -> dict[int, str]:
        """Returns the records that are not well-formed, with the reason; `like` says what has the expected width."""
        ragged = np.flatnonzero((self.widths != width) & ~self.broken).tolist()
        faults = dict.fromkeys(np.flatnonzero(self.broken).tolist(), NOT_CLOSED)
        for row in ragged:
            if not self.is_blank(row):
                faults[row] = f"{self.widths[row]} cells, expected {width} as in {like}"
        return faults

    def describe(self, row: int) -> tuple[str, bytes]:
        """Returns position and bytes of a record."""
        return f"line {self.lines[row]}", self.text(row)


def _records_at(starts: Ints, positions: Ints) -> Ints:
    """Returns the record that each position is in."""
    return np.searchsorted(starts, positions, side="right") - 1
