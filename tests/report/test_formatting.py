"""Values as text for people."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.report import formatting


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
    """Counts have separators, measures four significant digits."""
    assert formatting.number(value) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(1, 3, "33.3 %"), (0, 3, "0.0 %"), (3, 3, "100.0 %"), (1, 1e5, "< 0.1 %"), (99_999, 1e5, "> 99.9 %"), (1, 0, "–")],
)
def test_share(part: float, whole: float, expected: str) -> None:
    """A share is never rounded to 0 % or 100 %."""
    assert formatting.share(part, whole) == expected


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
    """A long text loses its middle; hidden characters are escaped."""
    assert formatting.fit(text, limit) == expected


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_fit_of_any_text(text: str, limit: int) -> None:
    """Any text becomes short text that UTF-8 can encode."""
    fitted = formatting.fit(text, limit)

    assert len(fitted) <= 10 * limit
    assert fitted.encode("utf-8")[:0] == b""


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 s"),
        (0.023, "0.023 s"),
        (6.42, "6.4 s"),
        (59.97, "1 min 00 s"),
        (78.4, "1 min 18 s"),
        (3599.6, "1 h 00 min"),
        (7325.0, "2 h 02 min"),
        (math.nan, "–"),
        (-1.0, "–"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    """A duration has its two largest units."""
    assert formatting.duration(seconds) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-11-14T09:26:53Z", "14 November 2025, 09:26:53 UTC"),
        ("2025-11-04T09:26:53.123456+02:00", "4 November 2025, 07:26:53 UTC"),
        ("yesterday", "yesterday"),
    ],
)
def test_moment(text: str, expected: str) -> None:
    """A time is a date in words, in UTC."""
    assert formatting.moment(text) == expected
