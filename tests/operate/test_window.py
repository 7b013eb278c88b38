"""The window of a tick is counted on the calendar; what is missing in it is named."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase

import pytest

from components.errors import BadInput, Late, SettingsError
from components.ingest.survey.spans import Glob
from pipelines.operate import window
from pipelines.operate.window import Window

DAYS = "logs/{YYYY}-{MM}-{DD}/v{VERSION}/*.csv"
HOURS = "logs/{YYYY}/{MM}/{DD}.{HH}.csv"
NUMBERS = "logs/{SPAN}.csv"
NOW = datetime(2024, 3, 2, 0, 30, tzinfo=timezone.utc)


def among(paths: Iterable[str]) -> Glob:
    """Returns a glob over files and the folders above them, one path segment per segment of the pattern."""
    known = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 2)}
    return lambda pattern: [
        path
        for path in sorted(known)
        if path.count("/") == pattern.count("/") and all(map(fnmatchcase, path.split("/"), pattern.split("/")))
    ]


def day(text: str, version: int = 1) -> str:
    """Returns the file of a day."""
    return f"logs/{text}/v{version}/a.csv"


LEAP = [day("2024-02-27"), day("2024-02-28"), day("2024-02-29"), day("2024-03-01")]


@pytest.mark.parametrize(
    ("data", "paths", "rule", "tick", "selection", "gaps"),
    [
        (DAYS, LEAP, "last 3", None, "2024-02-28,2024-02-29,2024-03-01", ""),
        (DAYS, LEAP, "last 3", "2024-02-29", "2024-02-27,2024-02-28,2024-02-29", ""),
        (DAYS, LEAP, "last 1", "2024-02-28", "2024-02-28", ""),
        (DAYS, LEAP, "last 6", "2024-03-01", "2024-02-27,2024-02-28,2024-02-29,2024-03-01", "2024-02-25, 2024-02-26"),
        (DAYS, [LEAP[0], LEAP[3]], "growing", None, "2024-02-27,2024-03-01", "2024-02-28, 2024-02-29"),
        (DAYS, LEAP, "2024-02-28..2024-02-29", None, "2024-02-28,2024-02-29", ""),
        (DAYS, LEAP, "2024-02-27..2024-12-31", "2024-02-28", "2024-02-27,2024-02-28", ""),
        (DAYS, [day("2023-12-31"), day("2024-01-01")], "last 2", "2024-01-01", "2023-12-31,2024-01-01", ""),
        (HOURS, ["logs/2024/03/01.22.csv", "logs/2024/03/01.23.csv"], "last 2", None,
         "2024-03-01T22,2024-03-01T23", ""),
        (HOURS, ["logs/2024/02/29.23.csv", "logs/2024/03/01.00.csv"], "last 3", "2024-03-01T00",
         "2024-02-29T23,2024-03-01T00", "2024-02-29T22"),
        (NUMBERS, ["logs/1.csv", "logs/2.csv", "logs/10.csv"], "last 9", None, "2,10", "3..9"),
        (NUMBERS, ["logs/1.csv", "logs/2.csv"], "1-9", None, "1,2", ""),
        (NUMBERS, ["logs/0.csv", "logs/1.csv"], "last 5", None, "0,1", ""),
    ],
)  # fmt: skip
def test_the_window_is_counted_on_the_calendar(
    data: str, paths: list[str], rule: str, tick: str | None, selection: str, gaps: str
) -> None:
    """C7: leap days, ends of months and years, hours and numbers; what was not found is a gap, not another span."""
    found = window.resolve(data, rule, tick, among(paths), NOW)

    assert (found.selection, found.gaps_text, found.is_late) == (selection, gaps, False)


def test_the_highest_version_of_each_span_is_read() -> None:
    """A correction of an old day changes no other one."""
    found = window.resolve(DAYS, "growing", None, among([*LEAP, day("2024-02-28", 2), day("2024-02-28", 11)]), NOW)

    assert [(span.text, span.version) for span in found.spans] == [
        ("2024-02-27", 1), ("2024-02-28", 11), ("2024-02-29", 1), ("2024-03-01", 1),
    ]  # fmt: skip


def test_the_newest_day_that_is_over_is_due() -> None:
    """C7: it is late, although older days are there; in another time zone an older one is due."""
    late = window.resolve(DAYS, "last 7", None, among(LEAP[:3]), NOW)
    west = window.resolve(DAYS, "last 2", None, among(LEAP[:3]), NOW.astimezone(timezone(timedelta(hours=-5))))

    assert (late.tick_text, late.is_late) == ("2024-03-01", True)
    assert (west.tick_text, west.is_late) == ("2024-02-29", False)
    with pytest.raises(Late) as error:
        window.check(late, "allow 99")
    assert str(error.value) == (
        "span 2024-03-01 is not there: no file logs/2024-03-01/v*/*.csv; provide it, or let the retraining wait for it "
        "(ingest.late=wait) or leave it out (ingest.late=skip)"
    )


def test_the_newest_hour_that_is_over_is_due() -> None:
    """At 00:30 it is the last one of the day before."""
    assert window.resolve(HOURS, "growing", None, among([]), NOW).tick_text == "2024-03-01T23"


def test_a_folder_without_files_is_a_missing_span() -> None:
    """Whatever writes the span has just started."""
    found = window.resolve(DAYS, "last 2", None, among([day("2024-02-29"), "logs/2024-03-01/v1"]), NOW)

    assert found.is_late


def test_a_folder_without_files_does_not_begin_the_window() -> None:
    """Nor is it the newest number; but an older version is not taken for a newer one without files."""
    first = window.resolve(DAYS, "growing", None, among([*LEAP, "logs/2024-01-01/v1"]), NOW)
    newest = window.resolve("logs/{SPAN}/*.csv", "growing", None, among(["logs/1/a.csv", "logs/2"]), NOW)
    corrected = window.resolve(DAYS, "growing", None, among([*LEAP, "logs/2024-02-27/v2"]), NOW)

    assert (first.text, newest.tick, corrected.gaps_text) == ("2024-02-27..2024-03-01", 1, "2024-02-27")


def test_a_window_ends_with_the_calendar() -> None:
    """The first day is that of the year 1."""
    assert window.resolve(DAYS, "last 100000", "0001-01-03", among([]), NOW).text == "0001-01-01..0001-01-03"


@pytest.mark.parametrize(("gaps", "allowed"), [("fail", 0), ("allow 1", 1), ("allow 2", None), ("allow 3", None)])
def test_gaps_are_named_or_allowed(gaps: str, allowed: int | None) -> None:
    """C7: the message has every older span that is missing."""
    found = window.resolve(DAYS, "last 4", None, among([LEAP[0], LEAP[3]]), NOW)
    if allowed is None:
        window.check(found, gaps)
        return
    with pytest.raises(Late) as error:
        window.check(found, gaps)

    assert str(error.value) == (
        "span 2024-03-01: 2 older spans of its window 2024-02-27..2024-03-01 are missing, "
        f"{allowed} allowed (ingest.gaps = {gaps}): 2024-02-28, 2024-02-29; provide them, or allow them "
        "(--set ingest.gaps='allow 2')"
    )


@pytest.mark.parametrize(
    ("data", "rule", "tick", "message"),
    [
        (DAYS, "last 0", None, "setting ingest.window: expected 'last N', growing, or a range"),
        (DAYS, "last 800000", None, r"setting ingest.window: expected 'last N' with N up to 100,000 \(got"),
        (DAYS, "3-9", None, "setting ingest.window: expected a date, such as 2026-11-14"),
        (DAYS, "2024-02-30..2024-03-01", None, "setting ingest.window: no such date: day is out of range for month"),
        (NUMBERS, "9-3", None, "setting ingest.window: the first span of the range is after its last"),
        (DAYS, "growing", "2023-02-29", "--span 2023-02-29: no such date: day is out of range for month"),
        (DAYS, "growing", "7", "--span 7: expected a date, such as 2026-11-14"),
        (HOURS, "growing", "2024-03-01T24", r"--span 2024-03-01T24: hour must be in 0\.\.23, not 24"),
        (DAYS, "2024-02-01..2024-02-03", "2024-02-04", "span 2024-02-04 is outside of ingest.window = 2024-02-01"),
        ("logs/*.csv", "growing", None, r"logs/\*\.csv: no spans; expected a pattern with \{SPAN\}"),
    ],
)
def test_what_names_no_window_is_rejected(data: str, rule: str, tick: str | None, message: str) -> None:
    """The message has the value and the valid forms."""
    with pytest.raises(SettingsError, match=message):
        window.resolve(data, rule, tick, among([]), NOW)


def test_numbers_have_no_calendar() -> None:
    """Without a span in the data and without --span, nothing says which one is due."""
    with pytest.raises(BadInput, match=r"found no span; expected at least one"):
        window.resolve(NUMBERS, "growing", None, among([]), NOW)


def test_a_window_of_one_span_is_written_as_that_span() -> None:
    """A longer one as first and last."""
    assert [Window(DAYS, 19783, "day", first, ()).text for first in (19783, 19782)] == [
        "2024-03-01", "2024-02-29..2024-03-01",
    ]  # fmt: skip
