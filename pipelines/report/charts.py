"""Small charts: values in, inline SVG out.

    values ─► marks on an axis ─► shapes with a class ─► Markup, every text fitted and escaped

No colour is written here. Shapes carry classes, and the one style sheet of the page colours them for a light screen,
a dark one and paper. The same holds for inline styles: the page's policy forbids them.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

TEXT_LIMIT = 300
SERIES = 6  # the style sheet has that many colours for lines and bars
BAR_HEIGHT = 8
POINT_LIMIT = 400  # a line of more points is thinned: a screen has no more pixels
DOT_LIMIT = 40  # a line of more points is drawn without dots
NAMED_EPOCHS = 12  # of more epochs only round ones are named on the axis
SMALL_MATRIX = 12  # up to so many classes a heat map shrinks to fit a phone; a larger one scrolls

# What a browser would not show, or would let reorder the text around it.
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")
_LARGEST = 1e300  # beyond it the sums that place a value on an axis overflow
_PLAIN = (1e-4, 1e6)  # measures between these are written without a power of ten
_EXACT = 1e15  # whole numbers up to here are exact as floats

_STATE_SHAPES = {
    "ran": "M5.5 10.5l3 3 6-6.5",
    "cached": "M5.5 8h9M5.5 12.5h9",
    "failed": "M6.5 6.5l7 7M13.5 6.5l-7 7",
    "skipped": "M6 10h8",
    "warning": "M10 5v6.2M10 14v.6",
}


def fit(text: str, limit: int = TEXT_LIMIT) -> str:
    """Returns a text as it can be shown: bounded, on one line, nothing in it hidden.

    Both ends are kept, since the end of a path says more than its middle. Control characters, marks that change the
    direction of the text and broken surrogates are spelled out: no program can pose as a image.
    """
    if len(text) > limit:
        tail = (limit - 1) // 3
        text = f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"
    text = re.sub(r"[\t\n\r]+", " ", text)
    return _HIDDEN.sub(lambda hidden: hidden[0].encode("unicode_escape").decode("ascii"), text)


def number(value: float) -> str:
    """Returns a count with separators, or a measure with four digits that matter."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int):
        return f"{value:,}"
    if value.is_integer() and 10 <= abs(value) < _EXACT:
        return f"{value:,.0f}"
    if value != 0 and not _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return f"{value:.3e}"
    digits = len(str(int(abs(value))))
    return f"{value:,.{max(1, 4 - digits)}f}" if digits > 1 else f"{value:#.4g}"


def share(part: float, whole: float) -> str:
    """Returns a part of a whole as a percentage, never rounded up to all or down to nothing."""
    if whole <= 0 or not math.isfinite(part):
        return "–"
    text = f"{100 * part / whole:.1f} %"
    if text == "0.0 %" and part > 0:
        return "< 0.1 %"
    return "> 99.9 %" if text == "100.0 %" and part < whole else text


def ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Returns round numbers, about `count` steps apart, that enclose both ends."""
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-280):  # one value, or as good as one
        pad = abs(low) / 10 or 1.0
        low, high = low - pad, high + pad
    step = _round_step(high / count - low / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(float(f"{index * step:.12g}") for index in range(first, last + 1))


def tick_labels(marks: Sequence[float]) -> tuple[str, ...]:
    """Returns the marks as text, all with the same number of decimals."""
    step = marks[1] - marks[0]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if step < _PLAIN[0] or max(abs(mark) for mark in marks) >= _PLAIN[1]:
        return tuple(f"{mark:.4g}" for mark in marks)
    return tuple(f"{mark + 0.0:,.{decimals}f}" for mark in marks)


def epoch_ticks(epochs: int) -> tuple[int, ...]:
    """Returns the epochs to name on an axis: all of a few, round ones and the first of many."""
    if epochs <= NAMED_EPOCHS:
        return tuple(range(1, epochs + 1))
    step = math.ceil(_round_step(epochs / 7))
    return (1, *range(step, epochs + 1, step))


def state_symbol(state: str, why: str = "") -> Markup:
    """Draws the state of a node: a disc whose mark tells it without its colour."""
    shape = _STATE_SHAPES.get(state, "M10 10h.01")
    return Markup(
        '<svg class="symbol {}" viewBox="0 0 20 20" width="20" height="20" role="img" aria-label="{}">{}'
        '<circle cx="10" cy="10" r="9"/><path d="{}"/></svg>'
    ).format(_kind(state), fit(state), _title(why), shape)


def check_mark(holds: bool, label: str) -> Markup:
    """Draws a tick or a cross that says `label`."""
    kind = "ran" if holds else "failed"
    return Markup(
        '<svg class="symbol {}" viewBox="0 0 20 20" width="18" height="18" role="img" aria-label="{}">'
        '<circle cx="10" cy="10" r="9"/><path d="{}"/></svg>'
    ).format(kind, fit(label), _STATE_SHAPES[kind])


def swatch(series: int) -> Markup:
    """Draws the key of a series for a legend, in its colour and its dashes."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 24 10" width="24" height="10" aria-hidden="true">'
        '<line class="line s{}" x1="1" y1="5" x2="23" y2="5"/></svg>'
    ).format(series % SERIES)


def bars(shares: Sequence[float], label: str, first: int = 0) -> Markup:
    """Draws one thin bar a share, from 0 to 1, one under the other; the width follows the place it is put in."""
    height = BAR_HEIGHT * len(shares) + 2 * max(0, len(shares) - 1)
    shapes = Markup("").join(_bar(value, index, first) for index, value in enumerate(shares))
    return Markup('<svg class="bars" width="100%" height="{}" role="img" aria-label="{}">{}</svg>').format(
        height, fit(label), shapes
    )


def bars_key(series: int) -> Markup:
    """Draws the key of a bar's colour for a legend."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 12 8" width="12" height="8" aria-hidden="true">'
        '<rect class="fill s{}" width="12" height="8" rx="2"/></svg>'
    ).format(series % SERIES)


def line_chart(name: str, lines: Mapping[str, Sequence[float]], best: int | None = None) -> Markup:
    """Draws a value by epoch, one line a split; a value that is no number breaks its line and is marked with a cross.

    Args:
      name: what is measured.
      lines: by split, the value of each epoch. The order gives the colours.
      best: the epoch that was kept, counted from 1 as on the axis.
    """
    epochs = max((len(values) for values in lines.values()), default=0)
    drawable = [value for values in lines.values() for value in values if _drawable(value)]
    if not drawable:
        return Markup("")
    plane = _Plane.of(epochs, ticks(min(drawable), max(drawable)))
    kept = best if best is not None and 1 <= best <= epochs else None
    shapes = [_axes(plane)]
    if kept is not None:
        shapes.append(_best(plane, kept))
    shapes.extend(_line(plane, index % SERIES, split, values) for index, (split, values) in enumerate(lines.items()))
    return Markup('<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        plane.width, plane.height, _curve_label(name, lines, kept), Markup("").join(shapes)
    )


def confused_pairs(matrix: Sequence[Sequence[int]], limit: int) -> tuple[tuple[int, int, int], ...]:
    """Returns (true, predicted, count) of the pairs that were mistaken most, the worst first."""
    pairs = [
        (row, column, count)
        for row, counts in enumerate(matrix)
        for column, count in enumerate(counts)
        if row != column and count > 0
    ]
    return tuple(sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))[:limit])


def heat_map(classes: Sequence[str], matrix: Sequence[Sequence[int]]) -> Markup:
    """Draws a confusion matrix: rows are true classes, columns predicted ones, shade is the share of the row."""
    grid = _Grid.of(classes)
    total = sum(map(sum, matrix))
    right = sum(counts[row] for row, counts in enumerate(matrix))
    label = f"Confusion matrix of {len(classes)} classes: {number(right)} of {number(total)} records predicted right"
    shapes = [_grid_frame(grid), *_grid_labels(grid, classes)]
    for row, counts in enumerate(matrix):
        shapes.extend(_grid_row(grid, classes, row, counts))
    return Markup(
        '<svg class="matrix{}" viewBox="0 0 {w} {h}" width="{w}" height="{h}" font-size="{}" role="img"'
        ' aria-label="{}">{}</svg>'
    ).format(
        "" if grid.size <= SMALL_MATRIX else " wide",
        grid.font,
        label,
        Markup("").join(shapes),
        w=grid.width,
        h=grid.height,
    )


@dataclass(frozen=True)
class _Plane:
    """Where an epoch and a value land on a line chart."""

    epochs: int
    marks: tuple[float, ...]
    left: int
    width: int = 540
    height: int = 270
    right: int = 18
    top: int = 24
    bottom: int = 46

    @classmethod
    def of(cls, epochs: int, marks: tuple[float, ...]) -> "_Plane":
        return cls(epochs, marks, left=14 + 9 * max(map(len, tick_labels(marks))))

    def x(self, epoch: int) -> float:
        if self.epochs == 1:
            return (self.left + self.width - self.right) / 2
        step = (self.width - self.left - self.right - 16) / (self.epochs - 1)
        return self.left + 8 + (epoch - 1) * step

    def y(self, value: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        return self.floor - (self.floor - self.top) * (value - low) / (high - low)

    @property
    def floor(self) -> int:
        return self.height - self.bottom


def _axes(plane: _Plane) -> Markup:
    rows = Markup("").join(
        Markup(
            '<line class="grid" x1="{}" y1="{y}" x2="{}" y2="{y}"/><text class="end" x="{}" y="{}">{}</text>'
        ).format(
            plane.left, plane.width - plane.right, plane.left - 8, _at(plane.y(mark) + 4), label, y=_at(plane.y(mark))
        )
        for mark, label in zip(plane.marks, tick_labels(plane.marks), strict=True)
    )
    columns = Markup("").join(
        Markup('<text class="mid" x="{}" y="{}">{}</text>').format(_at(plane.x(epoch)), plane.floor + 19, epoch)
        for epoch in epoch_ticks(plane.epochs)
    )
    middle = (plane.left + plane.width - plane.right) / 2
    unit = Markup('<text class="mid" x="{}" y="{}">epoch</text>').format(_at(middle), plane.height - 6)
    return rows + columns + unit


def _best(plane: _Plane, epoch: int) -> Markup:
    x = plane.x(epoch)
    side = "start" if x < plane.left + 40 else "end" if x > plane.width - plane.right - 40 else "mid"
    return Markup(
        '<line class="best" x1="{x}" y1="{}" x2="{x}" y2="{}"/><text class="best {}" x="{x}" y="{}">best</text>'
    ).format(plane.top - 6, plane.floor, side, plane.top - 11, x=_at(x))


def _line(plane: _Plane, series: int, split: str, values: Sequence[float]) -> Markup:
    points = list(_thinned(values))
    runs = Markup("").join(
        Markup('<polyline class="line s{}" points="{}"/>').format(
            series, " ".join(f"{_at(plane.x(epoch))},{_at(plane.y(value))}" for epoch, value in run)
        )
        for run in _unbroken(points)
        if len(run) > 1
    )
    dots = Markup("").join(_point(plane, series, split, epoch, value) for epoch, value in _dotted(points))
    return runs + dots


def _point(plane: _Plane, series: int, split: str, epoch: int, value: float) -> Markup:
    title = _title(f"{split}, epoch {epoch}: {number(value)}")
    if _drawable(value):
        return Markup('<circle class="dot s{}" cx="{}" cy="{}" r="3">{}</circle>').format(
            series, _at(plane.x(epoch)), _at(plane.y(value)), title
        )
    x, y = plane.x(epoch), plane.floor - 6 - 12 * series
    return Markup('<path class="lost s{}" d="M{} {}l8 8m0 -8l-8 8">{}</path>').format(
        series, _at(x - 4), _at(y - 4), title
    )


def _thinned(values: Sequence[float]) -> Iterator[tuple[int, float]]:
    stride = math.ceil(len(values) / POINT_LIMIT)
    for index, value in enumerate(values):
        if index % stride == 0 or index == len(values) - 1:
            yield index + 1, value


def _unbroken(points: Iterable[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for epoch, value in points:
        if _drawable(value):
            runs[-1].append((epoch, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _dotted(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """All points of a short line; of a long one those that no line would show."""
    if len(points) <= DOT_LIMIT:
        return list(points)
    alone = [run[0] for run in _unbroken(points) if len(run) == 1]
    return alone + [(epoch, value) for epoch, value in points if not _drawable(value)]


def _curve_label(name: str, lines: Mapping[str, Sequence[float]], best: int | None) -> str:
    parts = [
        f"{fit(split, 40)} from {number(values[0])} to {number(values[-1])}"
        for split, values in lines.items()
        if values
    ]
    kept = "" if best is None else f"; best epoch {best}"
    return f"{fit(name, 80)} by epoch: {', '.join(parts)}{kept}"


@dataclass(frozen=True)
class _Grid:
    """Where the cells of a heat map lie."""

    size: int
    cell: int
    font: float
    left: int
    top: int
    slanted: bool
    right: int

    @classmethod
    def of(cls, classes: Sequence[str]) -> "_Grid":
        size = len(classes)
        cell, font = next(look for most, look in _GRID_LOOKS if size <= most)
        longest = max(_columns(_short(name, size)) for name in classes)
        text = math.ceil(longest * font * 0.62)
        slanted = text > cell - 6
        top = 26 + (math.ceil(max(text, 6 * font * 0.62) * 0.72) + 12 if slanted else 18)
        return cls(size, cell, font, left=text + 34, top=top, slanted=slanted, right=60 if not slanted else 78)

    def middle(self, column: int) -> str:
        return _at(self.left + (column + 0.5) * self.cell)

    def baseline(self, row: int) -> str:
        return _at(self.top + (row + 0.5) * self.cell + 0.36 * self.font)

    @property
    def side(self) -> int:
        return self.size * self.cell

    @property
    def width(self) -> int:
        return self.left + self.side + self.right

    @property
    def height(self) -> int:
        return self.top + self.side + 2


_GRID_LOOKS = (
    (SMALL_MATRIX, (38, 13.0)),
    (20, (34, 12.0)),
    (10**9, (28, 10.5)),
)  # up to so many classes: cell, letters


def _grid_frame(grid: _Grid) -> Markup:
    lines = Markup("").join(
        Markup('<path class="grid" d="M{} {}h{}M{} {}v{}"/>').format(
            grid.left, grid.top + at, grid.side, grid.left + at, grid.top, grid.side
        )
        for at in range(0, grid.side + 1, grid.cell)
    )
    titles = Markup(
        '<text class="axis mid" x="{}" y="13">predicted</text>'
        '<text class="axis mid" transform="translate(13 {}) rotate(-90)">true</text>'
    ).format(_at(grid.left + grid.side / 2), _at(grid.top + grid.side / 2))
    return lines + titles


def _grid_labels(grid: _Grid, classes: Sequence[str]) -> Iterator[Markup]:
    for index, name in enumerate(classes):
        yield Markup('<text class="name end" x="{}" y="{}">{}{}</text>').format(
            grid.left - 9, grid.baseline(index), _title(name), _short(name, grid.size)
        )
        yield _column_name(grid, grid.middle(index), name)
    yield _column_name(grid, _at(grid.left + grid.side + 30), "recall")


def _column_name(grid: _Grid, x: str, name: str) -> Markup:
    if grid.slanted:
        place = Markup('class="name" transform="translate({} {}) rotate(-45)"').format(x, grid.top - 8)
    else:
        place = Markup('class="name mid" x="{}" y="{}"').format(x, grid.top - 9)
    return Markup("<text {}>{}{}</text>").format(place, _title(name), _short(name, grid.size))


def _grid_row(grid: _Grid, classes: Sequence[str], row: int, counts: Sequence[int]) -> Iterator[Markup]:
    whole = sum(counts)
    for column, count in enumerate(counts):
        if count > 0:
            title = f"{fit(classes[row], 60)} taken for {fit(classes[column], 60)}: {number(count)}"
            yield _cell(grid, (row, column), count, count / whole, title=title)
    recall = f"{counts[row] / whole:.2f}" if whole else "–"
    yield Markup('<text class="mid" x="{}" y="{}">{}</text>').format(
        grid.left + grid.side + 30, grid.baseline(row), recall
    )


def _cell(grid: _Grid, place: tuple[int, int], count: int, part: float, *, title: str) -> Markup:
    row, column = place
    hit = row == column
    shade, deep = _shade(part if hit else 0.22 + 0.45 * math.sqrt(part))  # one mistake in a hundred must be seen
    return Markup(
        '<g>{}<rect class="{}{deep}" fill-opacity="{}" x="{}" y="{}" width="{side}" height="{side}" rx="3"/>'
        '<text class="mid{deep}" x="{}" y="{}">{}</text></g>'
    ).format(
        _title(title),
        "hit" if hit else "miss",
        _at(shade),
        grid.left + column * grid.cell + 1,
        grid.top + row * grid.cell + 1,
        grid.middle(column),
        grid.baseline(row),
        _compact(count),
        side=grid.cell - 2,
        deep=" deep" if deep else "",
    )


def _shade(depth: float) -> tuple[float, bool]:
    """How opaque a cell is, and whether its number takes the colour for deep cells.

    No cell is between 0.5 and 0.85: there neither colour of number has the contrast of 4.5 that small text needs, in
    light or in dark.
    """
    deep = depth > 0.5
    return (0.7 + 0.3 * depth if deep else depth), deep


def _bar(value: float, index: int, first: int) -> Markup:
    y = index * (BAR_HEIGHT + 2)
    percent = 100 * min(1.0, max(0.0, value)) if _drawable(value) else 0.0
    track = Markup('<rect class="track" y="{}" width="100%" height="{}" rx="2"/>').format(y, BAR_HEIGHT)
    if percent == 0:
        return track
    return track + Markup('<rect class="fill s{}" y="{}" width="{}%" height="{}" rx="2"/>').format(
        (first + index) % SERIES, y, _at(max(percent, 0.4)), BAR_HEIGHT
    )


def _round_step(rough: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def _drawable(value: float) -> bool:
    return math.isfinite(value) and abs(value) < _LARGEST


def _compact(count: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count // size}{unit}"
    return str(count)


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def _short(name: str, classes: int) -> str:
    return fit(name, 14 if classes <= SMALL_MATRIX else 18)


def _kind(state: str) -> str:
    return state if state in _STATE_SHAPES else "unknown"


def _title(text: str) -> Markup:
    return Markup("<title>{}</title>").format(fit(text)) if text else Markup("")


def _at(value: float) -> str:
    """A coordinate with two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
