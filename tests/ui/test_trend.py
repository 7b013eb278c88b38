"""Trends: one value per run."""

import math

from pipelines.ui.trend import MOST, TrendPoint, trend


def points(*values: float) -> list[TrendPoint]:
    """Returns a run per value."""
    return [TrendPoint(f"run {at}", value) for at, value in enumerate(values)]


def test_runs_from_left_to_right() -> None:
    """The oldest run is at the left, a larger value is higher; the first and the last run are named."""
    chart = trend("records", points(10, 30, 20, 40, 50))
    assert chart is not None

    assert [mark.x for mark in chart.marks] == sorted(mark.x for mark in chart.marks)
    ys = [mark.y for mark in chart.marks]
    assert sorted(range(5), key=lambda at: -ys[at]) == [0, 2, 1, 3, 4]
    assert [text for _, text in chart.columns] == ["run 0", "run 4"]
    assert chart.marks[1].tooltip == "run 1: 30"
    assert chart.label == "records over 5 runs, from 10 to 50"


def test_a_threshold_is_drawn_within_the_axis() -> None:
    """The axis starts at zero if there is a threshold, which is drawn only if the values come near it."""
    near, far = trend("drift", points(0.4, 1.6), 1.0), trend("drift", points(0.1, 0.2), 1.0)
    assert near is not None
    assert far is not None

    assert near.limit is not None
    assert near.marks[1].y < near.limit < near.marks[0].y
    assert far.limit is None


def test_what_cannot_be_drawn() -> None:
    """Values that are not finite are left out; no value, no chart; of many runs, the newest."""
    assert trend("loss", points(math.nan, math.inf)) is None
    chart = trend("loss", points(math.nan, *range(MOST + 5)))
    assert chart is not None
    assert (len(chart.marks), chart.marks[0].tooltip) == (MOST, "run 6: 5")
