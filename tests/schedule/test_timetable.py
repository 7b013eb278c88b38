"""When ticks are due, through changes of the clock."""

from collections.abc import Callable
from datetime import datetime

import pytest

from components.errors import SettingsError
from pipelines.schedule import cron
from pipelines.schedule.timetable import Timetable, interval, time_zone

At = Callable[[str], datetime]


def ticks(rule: str, start: datetime, count: int, zone: str = "Europe/Berlin") -> list[tuple[str, str]]:
    """Returns name and instant of the next ticks."""
    table = Timetable(cron.parse(rule) if " " in rule else interval(rule), time_zone(zone), start)
    return [(tick.key, f"{tick.at:%d %H:%M}") for tick in table.first(count, start)]


def test_a_time_that_the_clock_skips_is_due_when_it_is_set_forward(at: At) -> None:
    """C3: on 29 March 2026 there is no 02:30 in Berlin; its tick is due at 03:00 summer time, once."""
    assert ticks("30 2,3 * * *", at("2026-03-28T12:00"), 4) == [
        ("2026-03-29T02:30", "29 01:00"),
        ("2026-03-29T03:30", "29 01:30"),
        ("2026-03-30T02:30", "30 00:30"),
        ("2026-03-30T03:30", "30 01:30"),
    ]


def test_a_time_that_comes_twice_is_one_tick(at: At) -> None:
    """C3: on 25 October 2026 there are two 02:30 in Berlin; the first is the tick, asked before, between or after."""
    expected = [("2026-10-25T02:30", "25 00:30"), ("2026-10-26T02:30", "26 01:30")]

    assert ticks("30 2 * * *", at("2026-10-24T12:00"), 2) == expected
    assert ticks("30 2 * * *", at("2026-10-25T00:31"), 1) == expected[1:]
    assert ticks("30 2 * * *", at("2026-10-25T01:15"), 1) == expected[1:]


def test_a_day_that_a_country_skips(at: At) -> None:
    """C3: Samoa had no 30 December 2011; two ticks are due when the 31st begins, and each is one."""
    assert ticks("0 0 * * *", at("2011-12-29T11:00"), 3, "Pacific/Apia") == [
        ("2011-12-30T00:00", "30 10:00"),
        ("2011-12-31T00:00", "30 10:00"),
        ("2012-01-01T00:00", "31 10:00"),
    ]


def test_intervals_are_counted_in_real_time(at: At) -> None:
    """C3: from when the schedule was made, whatever the clocks on walls do."""
    assert ticks("6h", at("2026-03-28T21:10"), 2) == [
        ("2026-03-29T03:10:00Z", "29 03:10"),
        ("2026-03-29T09:10:00Z", "29 09:10"),
    ]


def test_the_newest_ticks_are_found_from_the_end(at: At) -> None:
    """A scheduler that was down for 60 years does not check each of 30 million minutes."""
    table = Timetable(cron.parse("* * * * *"), time_zone("UTC"), at("1966-01-01"))

    found = table.newest(3, at("1966-01-01"), at("2026-01-01T00:00:30"))

    assert [tick.key for tick in found] == ["2025-12-31T23:58", "2025-12-31T23:59", "2026-01-01T00:00"]


@pytest.mark.parametrize("text", ["6", "0h", "-1h", "1.5h", "90s", "1w", "h"])
def test_another_interval_is_rejected(text: str) -> None:
    """The message says which forms there are."""
    with pytest.raises(SettingsError, match="expected a number of minutes, hours or days, such as 30m, 6h or 2d"):
        interval(text)
