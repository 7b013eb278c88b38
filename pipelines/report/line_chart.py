"""The geometry of learning curves: one line per split over the epochs, drawn by charts.html.j2."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipelines.report.formatting import PLAIN_RANGE, fit, is_drawable, number

POINT_LIMIT = 400  # a longer line is thinned out: a screen has no more pixels
DOT_LIMIT = 40  # a line with more points has no dots
NAMED_EPOCHS = 12  # with more epochs, only round ones are named on the axis

Point = tuple[int, float]  # epoch, value


@dataclass(frozen=True)
class Line:
    """One split: the unbroken parts of its line, and the points drawn as dots or crosses."""

    split: str
    segments: tuple[tuple[Point, ...], ...]
    dots: tuple[Point, ...]


@dataclass(frozen=True)
class LineChart:
    """Lines, ticks, and where an epoch and a value are drawn."""

    label: str
    epochs: int
    ticks: tuple[float, ...]
    lines: tuple[Line, ...]
    best: int | None
    width: int = 540
    height: int = 270
    right: int = 522
    top: int = 24
    floor: int = 224

    @property
    def left(self) -> int:
        """The left end of the grid; tick labels need the rest."""
        return 14 + 9 * max(map(len, tick_labels(self.ticks)))

    @property
    def rows(self) -> list[tuple[float, str]]:
        """The y coordinate and the label of each tick."""
        return [(self.y(tick), text) for tick, text in zip(self.ticks, tick_labels(self.ticks), strict=True)]

    @property
    def columns(self) -> list[tuple[float, int]]:
        """The x coordinate of each named epoch, and the epoch."""
        return [(self.x(epoch), epoch) for epoch in epoch_ticks(self.epochs)]

    def x(self, epoch: int) -> float:
        """Returns where an epoch is drawn."""
        if self.epochs == 1:
            return (self.left + self.right) / 2
        return self.left + 8 + (epoch - 1) * (self.right - self.left - 16) / (self.epochs - 1)

    def y(self, value: float) -> float:
        """Returns where a value is drawn."""
        low, high = self.ticks[0], self.ticks[-1]
        return self.floor - (self.floor - self.top) * (value - low) / (high - low)


def line_chart(name: str, lines: Mapping[str, Sequence[float]], best: int | None = None) -> LineChart | None:
    """Returns the chart of a metric, or None if no value can be drawn; NaN and infinity break a line.

    Args:
      name: the metric.
      lines: by split, the value of each epoch. The order gives the colours.
      best: the epoch whose weights were kept, counted from 1 as on the axis.
    """
    epochs = max((len(values) for values in lines.values()), default=0)
    drawable = [value for values in lines.values() for value in values if is_drawable(value)]
    if not drawable:
        return None
    kept = best if best is not None and 1 <= best <= epochs else None
    return LineChart(
        label=_label(name, lines, kept),
        epochs=epochs,
        ticks=ticks(min(drawable), max(drawable)),
        lines=tuple(_line(split, list(_thinned(values))) for split, values in lines.items()),
        best=kept,
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


def _line(split: str, points: Sequence[Point]) -> Line:
    """Returns a line with all dots if it is short; else with dots only where no line would be visible."""
    segments: list[list[Point]] = [[]]
    for epoch, value in points:
        if is_drawable(value):
            segments[-1].append((epoch, value))
        elif segments[-1]:
            segments.append([])
    single = [segment[0] for segment in segments if len(segment) == 1]
    hidden = single + [(epoch, value) for epoch, value in points if not is_drawable(value)]
    return Line(split, tuple(map(tuple, segments)), tuple(points if len(points) <= DOT_LIMIT else hidden))


def _thinned(values: Sequence[float]) -> Iterator[Point]:
    stride = math.ceil(len(values) / POINT_LIMIT)
    for index, value in enumerate(values):
        if index % stride == 0 or index == len(values) - 1:
            yield index + 1, value


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
