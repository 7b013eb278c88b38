"""What happened in a run, as one number."""

from typing import Any

import pytest

from pipelines.orchestration.outcome import largest_drift


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        (None, None),
        ([(0.1, 0.2), (0.5, 0.25)], 2.0),
        ([(-0.1, 0.2)], 0.0),
        ([(0.0, 0.0)], 0.0),
        ([(1.0, 0.0)], 2.0),  # a new class, and none is allowed
    ],
    ids=["nothing compared", "the largest", "fewer new tokens", "no new class", "a new class"],
)
def test_the_largest_comparison(measures: Any, expected: float | None) -> None:
    """A finding is above 1, also where the threshold is zero."""
    compared = {} if measures is None else {"measures": [{"value": v, "threshold": t} for v, t in measures]}

    assert largest_drift(compared) == expected
