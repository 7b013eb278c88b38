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
        ([(1.0, 5.0, "records:span")], 0.0),
        ([(3.0, 5.0, "records:span")], 0.5),
        ([(5.5, 5.0, "records:span")], 1.125),
        ([(1.0, 1.0, "records:span")], 0.0),
    ],
    ids=[
        "nothing compared", "the largest", "fewer new tokens", "no new class", "a new class", "as many records",
        "three times", "too many", "none may be more",
    ],
)  # fmt: skip
def test_the_largest_comparison(measures: Any, expected: float | None) -> None:
    """A finding is above 1, also where the threshold is zero."""
    compared = (
        {}
        if measures is None
        else {"measures": [{"value": v, "threshold": t, "id": (*name, "drift:a")[0]} for v, t, *name in measures]}
    )

    assert largest_drift(compared) == expected
