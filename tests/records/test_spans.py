"""The names of spans."""

import pytest

from components.records import spans


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("s00006", "6"),
        ("s1234567", "1234567"),
        ("s20261119", "2026-11-19"),
        ("s20261119T05", "2026-11-19T05"),
        ("", ""),
    ],
)
def test_a_span_is_written_as_people_do(name: str, expected: str) -> None:
    """And not as in the names of shards."""
    assert spans.text(name) == expected


def test_many_spans_are_counted() -> None:
    """The first ones are named."""
    assert spans.named(["s20261119"]) == "span 2026-11-19"
    assert spans.named([f"s{at:05d}" for at in range(10)]) == "spans 0, 1, 2, 3, 4, 5, 6, 7, 2 more"
