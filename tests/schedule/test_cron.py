"""Cron expressions mean what cron says, where APScheduler reads them in another way."""

from datetime import datetime
from itertools import islice

import pytest

from components.errors import SettingsError
from pipelines.schedule import cron


def times(expression: str, start: str, count: int) -> list[str]:
    """Returns the next local times."""
    found = cron.local_times(cron.parse(expression), datetime.fromisoformat(start))
    return [time.isoformat(timespec="minutes") for time in islice(found, count)]


@pytest.mark.parametrize("sunday", ["0", "7", "sun", "SUN", "5-7/2,7"])
def test_sunday_has_two_numbers(sunday: str) -> None:
    """1 November 2026 is a Sunday; 0, 7 and the name mean it, and APScheduler would take 0 for Monday."""
    assert "2026-11-01T00:00" in times(f"0 0 * * {sunday}", "2026-10-31", 2)
    assert cron.parse("0 0 * * 1").weekdays == (1,)
    assert times("0 0 * * 1", "2026-10-31", 1) == ["2026-11-02T00:00"]


def test_either_kind_of_day_is_enough() -> None:
    """Day of month 13 or Friday; if one of the fields begins with *, both must match."""
    assert times("0 0 13 * fri", "2026-11-01", 3) == ["2026-11-06T00:00", "2026-11-13T00:00", "2026-11-20T00:00"]
    assert times("0 0 13 * *", "2026-11-01", 2) == ["2026-11-13T00:00", "2026-12-13T00:00"]
    assert times("0 0 */10 * 0", "2026-11-01", 2) == ["2027-01-31T00:00", "2027-02-21T00:00"]


def test_values_are_lists_ranges_steps_and_names() -> None:
    """The fields of an expression are the values that they allow."""
    fields = cron.parse("*/20,5 8-10,20 1-31/15 jan,6-8 mon-fri")

    assert fields.minutes == (0, 5, 20, 40)
    assert fields.hours == (8, 9, 10, 20)
    assert fields.days == (1, 16, 31)
    assert fields.months == (1, 6, 7, 8)
    assert fields.weekdays == (1, 2, 3, 4, 5)


def test_nicknames_are_expressions() -> None:
    """@daily is one, although APScheduler raises an error."""
    assert cron.parse("@daily") == cron.parse("0 0 * * *")
    assert cron.parse("@weekly") == cron.parse("0 0 * * 0")


def test_a_rare_date_is_found() -> None:
    """29 February is eight years away around 2100."""
    assert times("0 0 29 2 *", "2096-03-01", 1) == ["2104-02-29T00:00"]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("* * * *", "expected five fields"),
        ("0 0 3 * * *", "expected five fields"),
        ("@reboot", "expected five fields"),
        ("60 * * * *", "minute '60': expected 0 to 59"),
        ("0 0 0 * *", "day of month '0': expected 1 to 31"),
        ("0 0 L * *", "day of month 'l': expected 1 to 31"),
        ("0 0 * foo *", "month 'foo': expected 1 to 12, or jan"),
        ("0 0 * * fri#2", "day of week 'fri#2': expected"),
        ("5/10 * * * *", "expected steps of * or of a range"),
        ("*/0 * * * *", "expected a step of 1 to 59"),
        ("30-10 * * * *", "the range ends before it begins"),
        ("0 0 31 2 *", "no such date"),
    ],
)
def test_another_form_is_rejected(expression: str, reason: str) -> None:
    """The message has the expression and says what is expected."""
    with pytest.raises(SettingsError, match=reason.replace("*", r"\*")) as error:
        cron.parse(expression)
    assert repr(expression) in str(error.value)
