"""The layout of a trend: one value per run, oldest to the left; drawn by parts.html.j2."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.report.formatting import fit, is_drawable, number
from pipelines.report.line_chart import tick_labels, ticks

MOST = 60  # runs in a chart


@dataclass(frozen=True)
class TrendPoint:
    """One run."""

    name: str  # of the run, for the axis
    value: float
    kind: str = "ran"  # the state that gives the colour


@dataclass(frozen=True)
class Mark:
    """Where a run is drawn."""

    x: float
    y: float
    kind: str
    tooltip: str


@dataclass(frozen=True)
class Trend:
    """One line over the runs."""

    name: str
    last: str
    label: str
    rows: tuple[tuple[float, str], ...]
    columns: tuple[tuple[float, str], ...]
    marks: tuple[Mark, ...]
    limit: float | None  # y coordinate of a threshold
    left: float
    width: int = 540
    height: int = 190
    right: int = 526
    top: int = 14
    floor: int = 150


def trend(name: str, points: Sequence[TrendPoint], limit: float | None = None) -> Trend | None:
    """Returns the chart of a value over runs, or None if no value can be drawn.

    Args:
        name: the value.
        points: one per run, oldest first; the newest are shown.
        limit: a threshold, drawn as a line.
    """
    shown = [point for point in points if is_drawable(point.value)][-MOST:]
    if not shown:
        return None
    values = [point.value for point in shown]
    marks = ticks(min([*values, *([0.0] if min(values) >= 0 and limit is not None else [])]), max(values), 4)
    labels = tick_labels(marks)
    left, low, high = 14.0 + 8 * max(map(len, labels)), marks[0], marks[-1]
    right, top, floor = Trend.right, Trend.top, Trend.floor

    def y(value: float) -> float:
        return floor - (floor - top) * (value - low) / (high - low)

    step = (right - left - 16) / max(1, len(shown) - 1)
    xs = [left + 8 + at * step if len(shown) > 1 else (left + right) / 2 for at in range(len(shown))]
    named = {0, len(shown) - 1}
    return Trend(
        name=name,
        last=number(values[-1]),
        label=f"{fit(name, 60)} over {len(shown)} runs, from {number(values[0])} to {number(values[-1])}",
        rows=tuple((y(mark), text) for mark, text in zip(marks, labels, strict=True)),
        columns=tuple((x, p.name) for at, (x, p) in enumerate(zip(xs, shown, strict=True)) if at in named),
        marks=tuple(
            Mark(x, y(p.value), p.kind, f"{p.name}: {number(p.value)}") for x, p in zip(xs, shown, strict=True)
        ),
        limit=y(limit) if limit is not None and low <= limit <= high else None,
        left=left,
    )
