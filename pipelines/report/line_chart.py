"""Learning curves: one line per split over the epochs, as inline SVG.

values ─► ticks of the axes ─► lines, dots, crosses ─► Markup
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipelines.report.formatting import PLAIN_RANGE, fit, number
from pipelines.report.svg import SERIES, coordinate, is_drawable, title

POINT_LIMIT = 400  # a longer line is thinned out: a screen has no more pixels
DOT_LIMIT = 40  # a line with more points has no dots
NAMED_EPOCHS = 12  # with more epochs, only round ones are named on the axis

Point = tuple[int, float]  # epoch, value


def line_chart(name: str, lines: Mapping[str, Sequence[float]], best: int | None = None) -> Markup:
    """Draws a metric per epoch, one line per split; a NaN or infinite value breaks its line and is marked by a cross.

    Args:
      name: the metric.
      lines: by split, the value of each epoch. The order gives the colours.
      best: the epoch whose weights were kept, counted from 1 as on the axis.
    """
    epochs = max((len(values) for values in lines.values()), default=0)
    drawable = [value for values in lines.values() for value in values if is_drawable(value)]
    if not drawable:
        return Markup("")
    area = _PlotArea.of(epochs, ticks(min(drawable), max(drawable)))
    kept = best if best is not None and 1 <= best <= epochs else None
    shapes = [_axes(area)]
    if kept is not None:
        shapes.append(_best(area, kept))
    shapes.extend(_line(area, index % SERIES, split, values) for index, (split, values) in enumerate(lines.items()))
    return Markup('<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        area.width, area.height, _label(name, lines, kept), Markup("").join(shapes)
    )


def ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Returns about `count` + 1 round numbers that enclose both values."""
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-280):  # one value, or almost
        pad = abs(low) / 10 or 1.0
        low, high = low - pad, high + pad
    step = _round_step(high / count - low / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(float(f"{index * step:.12g}") for index in range(first, last + 1))


def tick_labels(marks: Sequence[float]) -> tuple[str, ...]:
    """Returns the ticks as text, all with the same number of decimals."""
    step = marks[1] - marks[0]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if step < PLAIN_RANGE[0] or max(abs(mark) for mark in marks) >= PLAIN_RANGE[1]:
        return tuple(f"{mark:.4g}" for mark in marks)
    return tuple(f"{mark + 0.0:,.{decimals}f}" for mark in marks)


def epoch_ticks(epochs: int) -> tuple[int, ...]:
    """Returns the epochs to name on the axis: all of a few; of many, the first and round ones."""
    if epochs <= NAMED_EPOCHS:
        return tuple(range(1, epochs + 1))
    step = math.ceil(_round_step(epochs / 7))
    return (1, *range(step, epochs + 1, step))


@dataclass(frozen=True)
class _PlotArea:
    """Where an epoch and a value are drawn."""

    epochs: int
    marks: tuple[float, ...]
    left: int
    width: int = 540
    height: int = 270
    right: int = 18
    top: int = 24
    bottom: int = 46

    @classmethod
    def of(cls, epochs: int, marks: tuple[float, ...]) -> "_PlotArea":
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


def _axes(area: _PlotArea) -> Markup:
    rows = Markup("").join(
        Markup(
            '<line class="grid" x1="{}" y1="{y}" x2="{}" y2="{y}"/><text class="end" x="{}" y="{}">{}</text>'
        ).format(
            area.left,
            area.width - area.right,
            area.left - 8,
            coordinate(area.y(mark) + 4),
            label,
            y=coordinate(area.y(mark)),
        )
        for mark, label in zip(area.marks, tick_labels(area.marks), strict=True)
    )
    columns = Markup("").join(
        Markup('<text class="mid" x="{}" y="{}">{}</text>').format(coordinate(area.x(epoch)), area.floor + 19, epoch)
        for epoch in epoch_ticks(area.epochs)
    )
    middle = (area.left + area.width - area.right) / 2
    unit = Markup('<text class="mid" x="{}" y="{}">epoch</text>').format(coordinate(middle), area.height - 6)
    return rows + columns + unit


def _best(area: _PlotArea, epoch: int) -> Markup:
    x = area.x(epoch)
    anchor = "start" if x < area.left + 40 else "end" if x > area.width - area.right - 40 else "mid"
    return Markup(
        '<line class="best" x1="{x}" y1="{}" x2="{x}" y2="{}"/><text class="best {}" x="{x}" y="{}">best</text>'
    ).format(area.top - 6, area.floor, anchor, area.top - 11, x=coordinate(x))


def _line(area: _PlotArea, series: int, split: str, values: Sequence[float]) -> Markup:
    points = list(_thinned(values))
    segments = Markup("").join(
        Markup('<polyline class="line s{}" points="{}"/>').format(
            series, " ".join(f"{coordinate(area.x(epoch))},{coordinate(area.y(value))}" for epoch, value in segment)
        )
        for segment in _segments(points)
        if len(segment) > 1
    )
    return segments + Markup("").join(_dot(area, series, split, point) for point in _dotted(points))


def _dot(area: _PlotArea, series: int, split: str, point: Point) -> Markup:
    epoch, value = point
    tooltip = title(f"{split}, epoch {epoch}: {number(value)}")
    if is_drawable(value):
        return Markup('<circle class="dot s{}" cx="{}" cy="{}" r="3">{}</circle>').format(
            series, coordinate(area.x(epoch)), coordinate(area.y(value)), tooltip
        )
    x, y = area.x(epoch), area.floor - 6 - 12 * series
    return Markup('<path class="lost s{}" d="M{} {}l8 8m0 -8l-8 8">{}</path>').format(
        series, coordinate(x - 4), coordinate(y - 4), tooltip
    )


def _thinned(values: Sequence[float]) -> Iterator[Point]:
    stride = math.ceil(len(values) / POINT_LIMIT)
    for index, value in enumerate(values):
        if index % stride == 0 or index == len(values) - 1:
            yield index + 1, value


def _segments(points: Iterable[Point]) -> list[list[Point]]:
    """Returns the parts of a line between values that cannot be drawn."""
    segments: list[list[Point]] = [[]]
    for epoch, value in points:
        if is_drawable(value):
            segments[-1].append((epoch, value))
        elif segments[-1]:
            segments.append([])
    return [segment for segment in segments if segment]


def _dotted(points: Sequence[Point]) -> list[Point]:
    """Returns all points of a short line; of a long one, only those that its line does not show."""
    if len(points) <= DOT_LIMIT:
        return list(points)
    single = [segment[0] for segment in _segments(points) if len(segment) == 1]
    return single + [(epoch, value) for epoch, value in points if not is_drawable(value)]


def _label(name: str, lines: Mapping[str, Sequence[float]], best: int | None) -> str:
    parts = [
        f"{fit(split, 40)} from {number(values[0])} to {number(values[-1])}"
        for split, values in lines.items()
        if values
    ]
    kept = "" if best is None else f"; best epoch {best}"
    return f"{fit(name, 80)} per epoch: {', '.join(parts)}{kept}"


def _round_step(rough: float) -> float:
    """Returns the smallest of 1, 2, 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
