"""Confusion matrices as SVG."""

import re

from pipelines.report.heat_map import heat_map
from tests.report.conftest import EVIL, draw, parse, texts


def test_heat_map() -> None:
    """Every count that is not zero has a cell; every row has its recall."""
    chart = parse(draw("heat_map", heat_map(("cat", "dog"), ((8, 2), (0, 0)))))

    assert chart.attrib["aria-label"] == "Confusion matrix of 2 classes: 8 of 10 records predicted correctly"
    assert [(cell.findtext("title"), cell.findtext("text")) for cell in chart.iter("g")] == [
        ("true cat, predicted cat: 8", "8"),
        ("true cat, predicted dog: 2", "2"),
    ]
    assert [text for text in texts(chart) if re.fullmatch(r"[0-9.–]+", text)] == ["8", "2", "0.80", "–"]


def test_large_counts() -> None:
    """Large counts are abbreviated."""
    chart = parse(draw("heat_map", heat_map(("a",), ((1_234_567,),))))

    assert [cell.findtext("text") for cell in chart.iter("g")] == ["1.2M"]


def test_markup_in_labels() -> None:
    """Markup in a class name is shown as text."""
    drawn = draw("heat_map", heat_map((EVIL, EVIL), ((1, 2), (3, 4))))

    assert "<script" not in drawn
    assert parse(drawn).tag == "svg"
