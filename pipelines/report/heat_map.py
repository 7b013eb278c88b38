"""The layout of a confusion matrix: rows are true classes, columns predicted classes; drawn by charts.html.j2."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from pipelines.report.formatting import fit, number

SMALL_MATRIX = 12  # up to this many classes the matrix shrinks to fit a phone; a larger one scrolls
_SIZES = (
    (SMALL_MATRIX, (38, 13.0)),
    (20, (34, 12.0)),
    (10**9, (28, 10.5)),
)  # up to so many classes: pixels per cell, font size
_LETTER_WIDTH = 0.62  # of the font size


@dataclass(frozen=True)
class HeatCell:
    """A count that is not zero; its opacity is its share of the row."""

    column: int
    text: str
    tooltip: str
    opacity: float
    deep: bool  # whether its number takes the colour for deep cells


@dataclass(frozen=True)
class HeatMap:
    """A confusion matrix and the space around it, in pixels."""

    label: str
    names: tuple[tuple[str, str], ...]  # of the classes: complete, shortened
    rows: tuple[tuple[list[HeatCell], str], ...]  # by true class: cells, recall
    cell: int
    font: float
    left: int
    top: int
    slanted: bool  # column names are too long to be horizontal
    wide: bool


def heat_map(classes: Sequence[str], matrix: Sequence[Sequence[int]]) -> HeatMap:
    """Returns the layout of a confusion matrix."""
    correct, total = sum(counts[row] for row, counts in enumerate(matrix)), sum(map(sum, matrix))
    records = f"{number(correct)} of {number(total)} records predicted correctly"
    cell, font = next(sizes for most, sizes in _SIZES if len(classes) <= most)
    wide = len(classes) > SMALL_MATRIX
    names = tuple((name, fit(name, 18 if wide else 14)) for name in classes)
    text = math.ceil(max(cell_len(short) for _, short in names) * font * _LETTER_WIDTH)
    slanted = text > cell - 6
    slant = math.ceil(max(text, 6 * font * _LETTER_WIDTH) * 0.72) + 12
    return HeatMap(
        label=f"Confusion matrix of {len(classes)} classes: {records}",
        names=names,
        rows=tuple(_row(classes, row, counts) for row, counts in enumerate(matrix)),
        cell=cell,
        font=font,
        left=text + 34,
        top=26 + (slant if slanted else 18),
        slanted=slanted,
        wide=wide,
    )


def _row(classes: Sequence[str], row: int, counts: Sequence[int]) -> tuple[list[HeatCell], str]:
    whole = sum(counts)
    cells = [_cell(classes, row, column, count, whole) for column, count in enumerate(counts) if count > 0]
    return cells, f"{counts[row] / whole:.2f}" if whole else "–"


def _cell(classes: Sequence[str], row: int, column: int, count: int, whole: int) -> HeatCell:
    """Returns a cell; no opacity is between 0.5 and 0.85.

    In between, neither text colour reaches the contrast of 4.5 that small text needs, in the light or the dark theme.
    """
    part = count / whole
    depth = part if row == column else 0.22 + 0.45 * math.sqrt(part)  # one error in a hundred must be visible
    tooltip = f"true {fit(classes[row], 60)}, predicted {fit(classes[column], 60)}: {number(count)}"
    return HeatCell(column, _compact(count), tooltip, 0.7 + 0.3 * depth if depth > 0.5 else depth, depth > 0.5)


def _compact(count: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count // size}{unit}"
    return str(count)
