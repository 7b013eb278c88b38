"""Line charts: values in, SVG out."""

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report import line_chart
from tests.report.conftest import EVIL, draw, parse, texts

FINITE = st.floats(min_value=-1e299, max_value=1e299)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.31, 0.99, (0.2, 0.4, 0.6, 0.8, 1.0)),
        (0.0, 2.2, (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)),
        (0.0, 1.0, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (-3.0, 3.0, (-4.0, -2.0, 0.0, 2.0, 4.0)),
        (0.1, 0.7, (0.0, 0.2, 0.4, 0.6, 0.8)),
        (120.0, 980.0, (0.0, 200.0, 400.0, 600.0, 800.0, 1000.0)),
        (0.0, 0.0, (-1.0, -0.5, 0.0, 0.5, 1.0)),
        (5.0, 5.0, (4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6)),
    ],
)
def test_ticks(low: float, high: float, expected: tuple[float, ...]) -> None:
    """Ticks are round numbers that enclose both values."""
    assert line_chart.ticks(low, high) == expected


@given(FINITE, FINITE)
def test_ticks_of_any_values(one: float, other: float) -> None:
    """Ticks enclose any two values, and there are at most nine."""
    low, high = min(one, other), max(one, other)
    marks = line_chart.ticks(low, high)
    slack = 1e-6 * (marks[-1] - marks[0])

    assert marks == tuple(sorted(set(marks)))
    assert 2 <= len(marks) <= 9
    assert marks[0] - slack <= low <= high <= marks[-1] + slack


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ((0.0, 0.5, 1.0), ("0.0", "0.5", "1.0")),
        ((0.94, 0.96, 0.98), ("0.94", "0.96", "0.98")),
        ((-4.0, -2.0, 0.0), ("-4", "-2", "0")),
        ((0.0, 5000.0), ("0", "5,000")),
        ((0.0, 1e-6), ("0", "1e-06")),
        ((0.0, 2e7), ("0", "2e+07")),
    ],
)
def test_tick_labels(marks: tuple[float, ...], expected: tuple[str, ...]) -> None:
    """All tick labels have the same number of decimals."""
    assert line_chart.tick_labels(marks) == expected


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        (1, (1,)),
        (3, (1, 2, 3)),
        (12, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)),
        (30, (1, 5, 10, 15, 20, 25, 30)),
        (1000, (1, 200, 400, 600, 800, 1000)),
    ],
)
def test_epoch_ticks(epochs: int, expected: tuple[int, ...]) -> None:
    """A few epochs are all named; of many, only round ones."""
    assert line_chart.epoch_ticks(epochs) == expected


def test_one_epoch() -> None:
    """A single epoch is a dot in the middle."""
    chart = _line_chart({"train": (0.5,)}, best=1)

    assert _polylines(chart) == []
    assert _dots(chart) == [("s0", "286", "124", "train, epoch 1: 0.5000")]
    assert texts(chart) == ["0.44", "0.46", "0.48", "0.50", "0.52", "0.54", "0.56", "1", "epoch", "best"]


def test_broken_line() -> None:
    """A NaN or infinite value breaks its line and is marked by a cross."""
    chart = _line_chart({"train": (4.0, 3.0, math.nan, 1.0, math.inf), "eval": (2.0, 2.0, 2.0, 2.0, 2.0)})

    assert [len(points.split()) for points in _polylines(chart)] == [2, 5]
    assert [cross.findtext("title") for cross in chart.iter("path")] == ["train, epoch 3: NaN", "train, epoch 5: ∞"]
    assert "nan" not in " ".join(_polylines(chart))


def test_no_finite_value() -> None:
    """There is no chart without finite values."""
    assert line_chart.line_chart("loss", {"train": (math.nan,), "eval": ()}) is None


@pytest.mark.parametrize("best", [None, 0, 5, -1])
def test_best_epoch_out_of_range(best: int | None) -> None:
    """A best epoch outside the axis is not marked."""
    assert "best" not in texts(_line_chart({"train": (2.0, 1.0)}, best))


def test_empty_split() -> None:
    """A split without values keeps its colour."""
    chart = _line_chart({"train": (), "eval": (2.0, 1.0)})

    assert [dot[0] for dot in _dots(chart)] == ["s1", "s1"]
    assert chart.attrib["aria-label"] == "loss per epoch: eval from 2.000 to 1.000"


def test_long_line() -> None:
    """A long line is thinned out to what a screen can show."""
    chart = _line_chart({"train": tuple(1 / (1 + epoch) for epoch in range(100_000))})
    (points,) = _polylines(chart)

    assert len(points.split()) <= line_chart.POINT_LIMIT + 1
    assert _dots(chart) == []


def test_markup_in_labels() -> None:
    """Markup in a name is shown as text."""
    drawn = draw("line_chart", line_chart.line_chart(EVIL, {EVIL: (1.0, math.nan)}))

    assert "<script" not in drawn
    assert parse(drawn).tag == "svg"


def _line_chart(lines: dict[str, tuple[float, ...]], best: int | None = None) -> ET.Element:
    return parse(draw("line_chart", line_chart.line_chart("loss", lines, best)))


def _polylines(chart: ET.Element) -> list[str]:
    return [line.attrib["points"] for line in chart.iter("polyline")]


def _dots(chart: ET.Element) -> list[tuple[str, str, str, str | None]]:
    return [
        (dot.attrib["class"].split()[1], dot.attrib["cx"], dot.attrib["cy"], dot.findtext("title"))
        for dot in chart.iter("circle")
    ]
