"""Drift charts: live model's data above, new spans below."""

import itertools
import math

import pytest

from pipelines.report.drift_chart import Share, drift_charts
from tests.report.conftest import draw, measure, parse, texts

TENTHS = tuple(range(1, 10))


def test_a_number_is_a_strip_per_side() -> None:
    """The axis covers both sides; the strip ends at the outer deciles, its dark part at the third and the seventh."""
    (chart,) = drift_charts([measure("drift:age", 0.3, TENTHS, tuple(each + 1 for each in TENTHS))], 6)
    live, new = chart.strips.strips if chart.strips else ()
    per_unit = new.ends[0] - live.ends[0]

    assert (live.ends[1] - live.ends[0]) / per_unit == pytest.approx(8)
    assert [(at - live.ends[0]) / per_unit for at in (*live.inner, live.median)] == pytest.approx([2, 6, 4])
    assert chart.strips is not None
    assert chart.strips.rows[0] == ("10 %", "1.000", "2.000")
    assert chart.strips.label == "age: median 5.000 in the live model's data and 6.000 in the new spans"


def test_labels_of_strips() -> None:
    """Each strip is named; labels of ticks do not touch."""
    (chart,) = drift_charts([measure("drift:age", 0.3, (1e6, 2e6), (3e6, 4e6))], 6)
    template = draw("strips", chart.strips, template="retraining.html.j2")

    assert [text for text in texts(parse(template)) if text][-2:] == ["live model's data", "new spans"]
    assert chart.strips is not None
    named = [x for x, text in chart.strips.ticks if text]
    assert all(after - before >= 46 for before, after in itertools.pairwise(named))


def test_categories_are_shares() -> None:
    """A value that one side lacks is marked; bars are relative to the largest share."""
    (chart,) = drift_charts([measure("drift:plan", 0.3, (0.5, 0.5, 0.0), (0.25, 0.0, 0.75), ("a", "b", "c"))], 6)

    assert chart.shares == (Share("a", 0.5, 0.25), Share("b", 0.5, 0.0), Share("c", 0.0, 0.75))
    assert [each.mark for each in chart.shares] == ["", "gone", "new"]
    assert chart.widest == 0.75


@pytest.mark.parametrize("live", [(), (math.inf, 1.0), (math.nan, 1.0)])
def test_what_cannot_be_drawn_has_no_chart(live: tuple[float, ...]) -> None:
    """No chart without finite values on both sides, nor of a verdict of an earlier version."""
    old = {key: value for key, value in measure("drift:a", 0.1).items() if key != "distributions"}

    assert drift_charts([measure("drift:age", 0.3, live, (1.0, 2.0)), old], 6) == []


def test_the_first_charts_are_shown() -> None:
    """No more charts than asked for."""
    rows = [measure(f"drift:{at}", 0.3, TENTHS, TENTHS) for at in range(9)]

    assert [chart.row["column"] for chart in drift_charts(rows, 2)] == ["0", "1"]
