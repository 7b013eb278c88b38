"""A confusion matrix as inline SVG: rows are true classes, columns predicted classes."""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipelines.report.formatting import fit, number
from pipelines.report.svg import coordinate, title

SMALL_MATRIX = 12  # up to this many classes the matrix shrinks to fit a phone; a larger one scrolls
_SIZES = (
    (SMALL_MATRIX, (38, 13.0)),
    (20, (34, 12.0)),
    (10**9, (28, 10.5)),
)  # up to so many classes: pixels per cell, font size
_LETTER_WIDTH = 0.62  # of the font size


def heat_map(classes: Sequence[str], matrix: Sequence[Sequence[int]]) -> Markup:
    """Draws a confusion matrix; the shade of a cell is its share of the row."""
    grid = _Grid.of(classes)
    total = sum(map(sum, matrix))
    correct = sum(counts[row] for row, counts in enumerate(matrix))
    shapes = [_frame(grid), *_names(grid, classes)]
    for row, counts in enumerate(matrix):
        shapes.extend(_row(grid, classes, row, counts))
    return Markup(
        '<svg class="matrix{}" viewBox="0 0 {w} {h}" width="{w}" height="{h}" font-size="{}" role="img"'
        ' aria-label="{}">{}</svg>'
    ).format(
        "" if grid.size <= SMALL_MATRIX else " wide",
        grid.font,
        f"Confusion matrix of {len(classes)} classes: {number(correct)} of {number(total)} records predicted correctly",
        Markup("").join(shapes),
        w=grid.width,
        h=grid.height,
    )


@dataclass(frozen=True)
class _Grid:
    """Where the cells and their labels are drawn."""

    size: int
    cell: int
    font: float
    left: int
    top: int
    slanted: bool

    @classmethod
    def of(cls, classes: Sequence[str]) -> "_Grid":
        size = len(classes)
        cell, font = next(sizes for most, sizes in _SIZES if size <= most)
        text = math.ceil(max(_columns(_short(name, size)) for name in classes) * font * _LETTER_WIDTH)
        slanted = text > cell - 6
        slant = math.ceil(max(text, 6 * font * _LETTER_WIDTH) * 0.72) + 12
        return cls(size, cell, font, left=text + 34, top=26 + (slant if slanted else 18), slanted=slanted)

    def middle(self, column: int) -> str:
        return coordinate(self.left + (column + 0.5) * self.cell)

    def baseline(self, row: int) -> str:
        return coordinate(self.top + (row + 0.5) * self.cell + 0.36 * self.font)

    @property
    def side(self) -> int:
        return self.size * self.cell

    @property
    def width(self) -> int:
        return self.left + self.side + (78 if self.slanted else 60)

    @property
    def height(self) -> int:
        return self.top + self.side + 2


def _frame(grid: _Grid) -> Markup:
    lines = Markup("").join(
        Markup('<path class="grid" d="M{} {}h{}M{} {}v{}"/>').format(
            grid.left, grid.top + at, grid.side, grid.left + at, grid.top, grid.side
        )
        for at in range(0, grid.side + 1, grid.cell)
    )
    titles = Markup(
        '<text class="axis mid" x="{}" y="13">predicted</text>'
        '<text class="axis mid" transform="translate(13 {}) rotate(-90)">true</text>'
    ).format(coordinate(grid.left + grid.side / 2), coordinate(grid.top + grid.side / 2))
    return lines + titles


def _names(grid: _Grid, classes: Sequence[str]) -> Iterator[Markup]:
    for index, name in enumerate(classes):
        yield Markup('<text class="name end" x="{}" y="{}">{}{}</text>').format(
            grid.left - 9, grid.baseline(index), title(name), _short(name, grid.size)
        )
        yield _column_name(grid, grid.middle(index), name)
    yield _column_name(grid, coordinate(grid.left + grid.side + 30), "recall")


def _column_name(grid: _Grid, x: str, name: str) -> Markup:
    if grid.slanted:
        place = Markup('class="name" transform="translate({} {}) rotate(-45)"').format(x, grid.top - 8)
    else:
        place = Markup('class="name mid" x="{}" y="{}"').format(x, grid.top - 9)
    return Markup("<text {}>{}{}</text>").format(place, title(name), _short(name, grid.size))


def _row(grid: _Grid, classes: Sequence[str], row: int, counts: Sequence[int]) -> Iterator[Markup]:
    whole = sum(counts)
    for column, count in enumerate(counts):
        if count > 0:
            tooltip = f"true {fit(classes[row], 60)}, predicted {fit(classes[column], 60)}: {number(count)}"
            yield _cell(grid, (row, column), count, count / whole, tooltip=tooltip)
    recall = f"{counts[row] / whole:.2f}" if whole else "–"
    yield Markup('<text class="mid" x="{}" y="{}">{}</text>').format(
        grid.left + grid.side + 30, grid.baseline(row), recall
    )


def _cell(grid: _Grid, place: tuple[int, int], count: int, part: float, *, tooltip: str) -> Markup:
    row, column = place
    correct = row == column
    opacity, deep = _shade(part if correct else 0.22 + 0.45 * math.sqrt(part))  # one error in a hundred must be visible
    return Markup(
        '<g>{}<rect class="{}{deep}" fill-opacity="{}" x="{}" y="{}" width="{side}" height="{side}" rx="3"/>'
        '<text class="mid{deep}" x="{}" y="{}">{}</text></g>'
    ).format(
        title(tooltip),
        "hit" if correct else "miss",
        coordinate(opacity),
        grid.left + column * grid.cell + 1,
        grid.top + row * grid.cell + 1,
        grid.middle(column),
        grid.baseline(row),
        _compact(count),
        side=grid.cell - 2,
        deep=" deep" if deep else "",
    )


def _shade(depth: float) -> tuple[float, bool]:
    """Returns the opacity of a cell, and whether its number takes the colour for deep cells.

    No cell has an opacity between 0.5 and 0.85: there, neither text colour reaches the contrast of 4.5 that small text
    needs, in the light or the dark theme.
    """
    deep = depth > 0.5
    return (0.7 + 0.3 * depth if deep else depth), deep


def _compact(count: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count // size}{unit}"
    return str(count)


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def _short(name: str, classes: int) -> str:
    return fit(name, 14 if classes <= SMALL_MATRIX else 18)
