"""What each part of a page shows."""

from typing import Any

import pytest

from pipelines.schedule.policy import TickState
from pipelines.ui import rows
from pipelines.watch.history import Run, RunState


def run(**values: Any) -> Run:
    """Returns a run."""
    return Run("r", "p", "succeeded", "2026-11-14T03:00:00+00:00", "", 1.0, **values)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"ingest": {"spans": "2026-11-13,2026-11-14"}}, "2026-11-14"),
        ({"ingest": {"spans": "3..7"}}, "7"),
        ({"ingest": {"spans": "7"}}, "7"),
        ({"ingest": {}}, ""),
        ({}, ""),
    ],
)
def test_the_newest_span(chosen: dict[str, Any], expected: str) -> None:
    """The last of a list or of a range; none of a run on all data."""
    assert rows.newest_span(run(settings=chosen)) == expected


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [({"auc": 0.7, "accuracy": 0.9}, ("accuracy", 0.9)), ({"r2": 0.4}, ("r2", 0.4)), ({}, None)],
)
def test_the_metric_that_decides(metrics: dict[str, float], expected: Any) -> None:
    """Accuracy, or R² of a regression."""
    assert rows.metric(run(metrics=metrics)) == expected


def test_every_state_has_a_symbol() -> None:
    """Of a run and of a tick: none is drawn as unknown."""
    from typing import get_args

    states = [*_flat(get_args(RunState)), *get_args(TickState)]

    assert [state for state in states if rows.kind(state) == "unknown"] == []


def test_what_is_compared_is_short() -> None:
    """Nested settings are one text each; values are cut; no more than 400 names."""
    settings = {
        "train": {"epochs": 3, "optimizer": {"b": 1, "a": 2}},
        "ingest": {f"x{at}": "y" * 999 for at in range(999)},
    }
    found = rows.comparable(run(settings=settings, drift=0.5))

    assert (found["setting: train.epochs"], found["drift / threshold"]) == ("3", "0.5000")
    assert found["setting: train.optimizer"] == '{"a":2,"b":1}'
    assert len(found) == 400
    assert max(map(len, found.values())) <= 300


def _flat(values: Any) -> list[str]:
    return [each for value in values for each in (_flat(value.__args__) if hasattr(value, "__args__") else [value])]
