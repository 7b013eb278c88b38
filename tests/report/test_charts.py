"""Charts: values in, SVG out."""

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report import charts

EVIL = "<script>alert(1)</script>"
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
    """Ticks are round numbers that enclose both ends."""
    assert charts.ticks(low, high) == expected


@given(FINITE, FINITE)
def test_ticks_of_any_values(one: float, other: float) -> None:
    """Ticks enclose any two values and stay few."""
    low, high = min(one, other), max(one, other)
    marks = charts.ticks(low, high)
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
    """Tick labels share their decimals."""
    assert charts.tick_labels(marks) == expected


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
    """Epoch ticks name all of a few epochs and round ones of many."""
    assert charts.epoch_ticks(epochs) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1797, "1,797"),
        (0.97489, "0.9749"),
        (1.0, "1.000"),
        (0.0, "0.000"),
        (12.345, "12.35"),
        (1234.56, "1,234.6"),
        (640.0, "640"),
        (0.00001, "1.000e-05"),
        (math.nan, "NaN"),
        (-math.inf, "−∞"),
    ],
)
def test_number(value: float, expected: str) -> None:
    """Number keeps the digits that matter."""
    assert charts.number(value) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(1, 3, "33.3 %"), (0, 3, "0.0 %"), (3, 3, "100.0 %"), (1, 1e5, "< 0.1 %"), (99_999, 1e5, "> 99.9 %"), (1, 0, "–")],
)
def test_share(part: float, whole: float, expected: str) -> None:
    """Share never rounds to all or nothing."""
    assert charts.share(part, whole) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short", 10, "short"),
        ("data/birds/gull/0001.jpg", 13, "data/bir….jpg"),
        ("two\r\nlines\tand a tab", 40, "two lines and a tab"),
        ("cut\x00here", 40, "cut\\x00here"),
        ("invoice\u202egpj.exe", 40, "invoice\\u202egpj.exe"),
        ("broken\udcff name", 40, "broken\\udcff name"),
        ("قطة 猫 🐈", 40, "قطة 猫 🐈"),
    ],
)
def test_fit(text: str, limit: int, expected: str) -> None:
    """Fit bounds a text and hides nothing."""
    assert charts.fit(text, limit) == expected


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_fit_of_any_text(text: str, limit: int) -> None:
    """Fit returns text that can be written."""
    fitted = charts.fit(text, limit)

    assert len(fitted) <= 10 * limit
    assert fitted.encode("utf-8")[:0] == b""


def test_bars() -> None:
    """Bars are drawn one under the other in the colours of their series."""
    assert charts.bars([0.5, 0.0, 0.0001], 'cat "tabby"') == (
        '<svg class="bars" width="100%" height="28" role="img" aria-label="cat &#34;tabby&#34;">'
        '<rect class="track" y="0" width="100%" height="8" rx="2"/>'
        '<rect class="fill s0" y="0" width="50%" height="8" rx="2"/>'
        '<rect class="track" y="10" width="100%" height="8" rx="2"/>'
        '<rect class="track" y="20" width="100%" height="8" rx="2"/>'
        '<rect class="fill s2" y="20" width="0.4%" height="8" rx="2"/>'
        "</svg>"
    )


def test_bar_of_nan() -> None:
    """A bar without a number is empty."""
    assert "fill" not in charts.bars([math.nan], "x")


@pytest.mark.parametrize("state", ["ran", "cached", "failed", "skipped", "warning", EVIL])
def test_state_symbol(state: str) -> None:
    """Every state has a mark of its own and says its name."""
    symbol = _parse(charts.state_symbol(state, "because"))
    others = {charts.state_symbol(other) for other in ("ran", "cached", "failed", "skipped", "warning")} - {
        charts.state_symbol(state)
    }

    assert symbol.attrib["aria-label"] == state
    assert symbol.findtext("title") == "because"
    assert symbol.find("path") is not None
    assert not any(f'd="{_path(symbol)}"' in other for other in others)


def test_one_epoch() -> None:
    """One epoch is a dot in the middle."""
    chart = _line_chart({"train": (0.5,)}, best=1)

    assert _polylines(chart) == []
    assert _dots(chart) == [("s0", "286", "124", "train, epoch 1: 0.5000")]
    assert _texts(chart) == ["0.44", "0.46", "0.48", "0.50", "0.52", "0.54", "0.56", "1", "epoch", "best"]


def test_broken_line() -> None:
    """A value that is no number breaks its line and is crossed."""
    chart = _line_chart({"train": (4.0, 3.0, math.nan, 1.0, math.inf), "eval": (2.0, 2.0, 2.0, 2.0, 2.0)})

    assert [len(points.split()) for points in _polylines(chart)] == [2, 5]
    assert [cross.findtext("title") for cross in chart.iter("path")] == ["train, epoch 3: NaN", "train, epoch 5: ∞"]
    assert "nan" not in " ".join(_polylines(chart))


def test_no_number() -> None:
    """A chart without any number is not drawn."""
    assert charts.line_chart("loss", {"train": (math.nan,), "eval": ()}) == ""


@pytest.mark.parametrize("best", [None, 0, 5, -1])
def test_best_epoch_out_of_range(best: int | None) -> None:
    """A best epoch outside the axis is not marked."""
    assert "best" not in charts.line_chart("loss", {"train": (2.0, 1.0)}, best)


def test_empty_split() -> None:
    """A split without values keeps the colour of the next one."""
    chart = _line_chart({"train": (), "eval": (2.0, 1.0)})

    assert [dot[0] for dot in _dots(chart)] == ["s1", "s1"]
    assert chart.attrib["aria-label"] == "loss by epoch: eval from 2.000 to 1.000"


def test_long_line() -> None:
    """A long line is thinned to what a screen can show."""
    chart = _line_chart({"train": tuple(1 / (1 + epoch) for epoch in range(100_000))})
    (points,) = _polylines(chart)

    assert len(points.split()) <= charts.POINT_LIMIT + 1
    assert _dots(chart) == []


def test_confused_pairs() -> None:
    """Confused pairs are the worst first."""
    matrix = ((9, 1, 0), (3, 7, 1), (0, 0, 5))

    assert charts.confused_pairs(matrix, 2) == ((1, 0, 3), (0, 1, 1))


def test_heat_map() -> None:
    """A heat map has a cell for every count that is not zero."""
    chart = _parse(charts.heat_map(("cat", "dog"), ((8, 2), (0, 0))))

    assert chart.attrib["aria-label"] == "Confusion matrix of 2 classes: 8 of 10 records predicted right"
    assert [(cell.findtext("title"), cell.findtext("text")) for cell in chart.iter("g")] == [
        ("cat taken for cat: 8", "8"),
        ("cat taken for dog: 2", "2"),
    ]
    assert [text for text in _texts(chart) if re.fullmatch(r"[0-9.–]+", text)] == ["8", "2", "0.80", "–"]


def test_large_counts() -> None:
    """Large counts fit their cells."""
    chart = _parse(charts.heat_map(("a",), ((1_234_567,),)))

    assert [cell.findtext("text") for cell in chart.iter("g")] == ["1.2M"]


@pytest.mark.parametrize(
    "drawn",
    [
        charts.heat_map((EVIL, EVIL), ((1, 2), (3, 4))),
        charts.line_chart(EVIL, {EVIL: (1.0, math.nan)}),
        charts.bars([0.5], EVIL),
        charts.state_symbol(EVIL, EVIL),
        charts.check_mark(True, EVIL),
    ],
)
def test_markup_in_labels(drawn: str) -> None:
    """Markup in a label is text."""
    assert "<script" not in drawn
    assert _parse(drawn).tag == "svg"


def _parse(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)  # noqa: S314 - our own output, and a test that it is well formed


def _line_chart(lines: dict[str, tuple[float, ...]], best: int | None = None) -> ET.Element:
    return _parse(charts.line_chart("loss", lines, best))


def _polylines(chart: ET.Element) -> list[str]:
    return [line.attrib["points"] for line in chart.iter("polyline")]


def _dots(chart: ET.Element) -> list[tuple[str, str, str, str | None]]:
    return [
        (dot.attrib["class"].split()[1], dot.attrib["cx"], dot.attrib["cy"], dot.findtext("title"))
        for dot in chart.iter("circle")
    ]


def _texts(chart: ET.Element) -> list[str]:
    return [
        "".join(part for part in (text.text, *(child.tail for child in text)) if part) for text in chart.iter("text")
    ]


def _path(symbol: ET.Element) -> str:
    path = symbol.find("path")
    return "" if path is None else path.attrib["d"]
