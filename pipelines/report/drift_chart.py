"""The layout of drift charts: live model's data above, new spans below; drawn by retraining.html.j2.

numbers            a strip from the first to the last decile, darker between the third and the seventh, median
categories, words  a bar per value and side
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.report.formatting import fit, is_drawable, number
from pipelines.report.line_chart import tick_labels, ticks

SIDES = ("live model's data", "new spans")
_LEFT, _RIGHT, _WIDTH = 122, 526, 540
_ROWS = (16, 52)  # y coordinates of the strips
_INNER = (2, 6)  # of nine deciles: the third and the seventh
_LABEL_GAP = 46  # between the labels of ticks


@dataclass(frozen=True)
class Strip:
    """The deciles of one side, in pixels."""

    name: str
    y: float
    ends: tuple[float, float]
    inner: tuple[float, float]
    median: float


@dataclass(frozen=True)
class Strips:
    """A number on both sides."""

    strips: tuple[Strip, ...]
    ticks: tuple[tuple[float, str], ...]
    label: str
    rows: tuple[tuple[str, str, str], ...]  # the same as a table: decile, live, new
    width: int = _WIDTH
    height: int = 116
    floor: int = 84


@dataclass(frozen=True)
class Share:
    """How often a value is on both sides."""

    name: str
    live: float
    new: float

    @property
    def mark(self) -> str:
        """Whether it appeared or vanished."""
        return "new" if not self.live else "gone" if not self.new else ""


@dataclass(frozen=True)
class DriftChart:
    """One comparison of the new spans, and how to draw it."""

    row: Mapping[str, Any]  # of `sections.drift_rows`
    strips: Strips | None = None
    shares: tuple[Share, ...] = ()

    @property
    def widest(self) -> float:
        """The largest share: that of a full bar."""
        return max((max(each.live, each.new) for each in self.shares), default=0.0) or 1.0


def drift_charts(rows: Sequence[Mapping[str, Any]], most: int) -> list[DriftChart]:
    """Returns charts of the first comparisons that have distributions."""
    charts = (_chart(row, row.get("distributions") or {}) for row in rows)
    return [chart for chart in charts if chart.strips or chart.shares][:most]


def _chart(row: Mapping[str, Any], stored: Mapping[str, Any]) -> DriftChart:
    sides = [tuple(map(float, stored.get(side, ()))) for side in ("live", "new")]
    if names := stored.get("names"):
        return DriftChart(row, shares=tuple(Share(str(n), a, b) for n, a, b in zip(names, *sides, strict=False)))
    return DriftChart(row, strips=_strips(row["column"], sides))


def _strips(column: str, sides: Sequence[tuple[float, ...]]) -> Strips | None:
    values = [each for side in sides for each in side]
    if not all(sides) or not all(map(is_drawable, values)):
        return None
    marks = ticks(min(values), max(values), 4)
    low, high = marks[0], marks[-1]

    def x(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)

    strips = tuple(
        Strip(name, y, (x(side[0]), x(side[-1])), (x(_at(side, 0)), x(_at(side, 1))), x(side[len(side) // 2]))
        for name, y, side in zip(SIDES, _ROWS, sides, strict=True)
    )
    medians = " and ".join(f"{number(side[len(side) // 2])} in the {n}" for n, side in zip(SIDES, sides, strict=True))
    return Strips(strips, _spread(marks, x), f"{fit(column, 60)}: median {medians}", _rows(sides))


def _at(side: Sequence[float], end: int) -> float:
    """Returns the third or the seventh decile; of other numbers of quantiles, one nearby."""
    return side[round(_INNER[end] * (len(side) - 1) / 8)]


def _spread(marks: Sequence[float], x: Any) -> tuple[tuple[float, str], ...]:
    """Returns ticks and labels, without labels that would touch."""
    found: list[tuple[float, str]] = []
    for mark, text in zip(marks, tick_labels(marks), strict=True):
        close = found and x(mark) - next(at for at, label in reversed(found) if label) < _LABEL_GAP
        found.append((x(mark), "" if close else text))
    return tuple(found)


def _rows(sides: Sequence[tuple[float, ...]]) -> tuple[tuple[str, str, str], ...]:
    if len(sides[0]) != len(sides[1]):
        return ()
    count = len(sides[0]) + 1
    return tuple(
        (f"{100 * (at + 1) / count:.0f} %", number(live), number(new))
        for at, (live, new) in enumerate(zip(*sides, strict=True))
    )
