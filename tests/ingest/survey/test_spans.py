"""Spans are numbers or dates in paths; the highest version of each counts."""

import re
from pathlib import Path

import pytest

from components.errors import BadInput, SettingsError
from components.ingest.survey import spans
from components.ingest.survey.span_unit import Unit
from components.ingest.survey.spans import Span

PATHS = ["logs/1/v1", "logs/2/v1", "logs/2/v3", "logs/10/v1", "logs/notes", "logs/2/vx"]


def listed(pattern: str) -> list[str]:
    """Returns the paths above that match a shell pattern."""
    return [path for path in PATHS if Path(path).match(pattern) and path.count("/") == pattern.count("/")]


def find(data: str, selection: str = "all") -> list[tuple[int | None, int | None, str]]:
    """Finds spans among the paths above."""
    return [(span.number, span.version, span.data) for span in spans.find(data, selection, listed)]


def test_data_without_a_span_is_one_span() -> None:
    """Nothing is listed."""
    assert spans.find("logs/*.csv", "all", listed) == (Span("logs/*.csv"),)


def test_spans_are_sorted_by_number_at_their_highest_version() -> None:
    """10 comes after 2, and span 2 has version 3."""
    assert find("logs/{SPAN}/v{VERSION}/*.csv") == [
        (1, 1, "logs/1/v1/*.csv"),
        (2, 3, "logs/2/v3/*.csv"),
        (10, 1, "logs/10/v1/*.csv"),
    ]


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [("latest", [10]), ("last 2", [2, 10]), ("last 9", [1, 2, 10]), ("2-10", [2, 10]), ("1-1", [1])],
)
def test_spans_can_be_selected(selection: str, numbers: list[int]) -> None:
    """By age or by number range."""
    assert [number for number, _, _ in find("logs/{SPAN}/v{VERSION}/*.csv", selection)] == numbers


def test_a_width_sets_the_number_of_digits() -> None:
    """A number with another length is no span."""
    assert find("logs/{SPAN:2}/v{VERSION}") == [(10, 1, "logs/10/v1")]


def test_missing_spans_are_an_error() -> None:
    """C7: never an older span instead; the message has the spans that exist."""
    with pytest.raises(BadInput) as error:
        find("logs/{SPAN}/v{VERSION}/*.csv", "3-9")

    assert str(error.value) == (
        "logs/{SPAN}/v{VERSION}/*.csv: 0 examples: no span for ingest.spans = 3-9; found spans 1, 2, 10"
    )


@pytest.mark.parametrize("selection", ["", "newest", "last", "last 0", "-1", "1-", "3,", "2026-1-1"])
def test_an_invalid_selection_is_rejected(selection: str) -> None:
    """The message has the valid forms."""
    with pytest.raises(SettingsError, match="expected all, latest, 'last N', a range such as 3-7"):
        find("logs/*.csv", selection)


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        ("7-3", "the first span of the range is after its last"),
        ("2026-11-01", "expected a number, such as 7"),
        ("2026-11-01..2026-11-02", "expected a number, such as 7"),
    ],
)
def test_a_selection_that_does_not_suit_the_data_is_rejected(selection: str, reason: str) -> None:
    """The message has the value."""
    with pytest.raises(SettingsError, match=rf"setting ingest.spans: {reason}.* \(got '{selection}'\)"):
        find("logs/{SPAN}/v{VERSION}", selection)


def test_spans_that_are_named_must_be_there() -> None:
    """C7: never the others alone."""
    assert [number for number, _, _ in find("logs/{SPAN}/v{VERSION}", "10,2")] == [2, 10]
    with pytest.raises(BadInput, match=r"no span 3, 4, which ingest.spans names; found spans 1, 2, 10"):
        find("logs/{SPAN}/v{VERSION}", "2,3,4,10")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("a/{SPAN}/{SPAN}", "{SPAN} occurs 2 times, expected once"),
        ("a/v{VERSION}", "{VERSION} without {SPAN} or a date; a version belongs to a span"),
        ("a/{SPAN:0}", "expected {SPAN} or {SPAN:3}"),
        ("a/{SPAN:x}", "expected {SPAN} or {SPAN:3}"),
        ("a/{SPAN}/{VERSION:}", "expected {SPAN} or {SPAN:3}"),
        ("a/{YYYY}{MM}", "a date is {YYYY}, {MM} and {DD}, possibly with {HH}"),
        ("a/{SPAN}/{HH}", "{SPAN} and a date; expected one of them"),
        ("a/{YYYY}{MM:2}{DD}", "expected {SPAN} or {SPAN:3}"),
    ],
)
def test_an_invalid_pattern_is_rejected(data: str, reason: str) -> None:
    """It is not taken as a file name."""
    with pytest.raises(SettingsError, match=re.escape(f"{data}: {reason}")):
        find(data)


@pytest.mark.parametrize(
    ("data", "path", "text", "name"),
    [
        ("{YYYY}-{MM}-{DD}/*.csv", "2026-11-14", "2026-11-14", "s20261114"),
        ("{DD}.{MM}.{YYYY}.csv", "29.02.2024.csv", "2024-02-29", "s20240229"),
        ("d{YYYY}{MM}{DD}", "d20261231", "2026-12-31", "s20261231"),
        ("{YYYY}/{MM}/{DD}/{HH}/*.csv", "2026/11/14/05", "2026-11-14T05", "s20261114T05"),
    ],
)
def test_a_span_may_be_a_date(data: str, path: str, text: str, name: str) -> None:
    """With any separators, in any order, possibly with an hour."""
    (span,) = spans.find(data, "all", lambda _: [path, "other", "12-3"])

    assert (span.text, span.name, span.data.removesuffix("/*.csv")) == (text, name, path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("logs/2026-02-30T01", "no such date: day is out of range for month"),
        ("logs/2026-13-01T01", "no such date: month must be in 1..12"),
        ("logs/2026-12-01T24", "hour must be in 0..23, not 24"),
    ],
)
def test_a_date_that_does_not_exist_is_an_error(path: str, reason: str) -> None:
    """It names the path: the span would be missing otherwise, without a word."""
    with pytest.raises(BadInput, match=re.escape(f"{path}: {reason}; rename it, or move it out of the data")):
        spans.find("logs/{YYYY}-{MM}-{DD}T{HH}", "all", lambda _: ["logs/2026-01-01T00", path])


def test_dates_can_be_selected() -> None:
    """By range, by list, or by age of those that are there."""
    paths = [f"2024-02-{day}" for day in (26, 28, 29)] + ["2024-03-01"]

    def days(selection: str) -> list[str]:
        return [span.text[5:] for span in spans.find("{YYYY}-{MM}-{DD}", selection, lambda _: paths)]

    assert days("2024-02-27..2024-02-29") == ["02-28", "02-29"]
    assert days("2024-03-01,2024-02-26") == ["02-26", "03-01"]
    assert days("last 3") == ["02-28", "02-29", "03-01"]


@pytest.mark.parametrize(
    ("data", "number", "unit", "path"),
    [
        ("a/{SPAN:3}/v{VERSION:2}", 7, "number", "a/007/v*"),
        ("a/{YYYY}-{MM}/{DD}T{HH}", 15 * 24 + 5, "hour", "a/1970-01/16T05"),
    ],
)
def test_the_place_of_a_missing_span_can_be_named(data: str, number: int, unit: Unit, path: str) -> None:
    """With any version."""
    assert spans.filled(data, number, unit) == path


def test_span_names_sort_by_number() -> None:
    """Shard names contain them."""
    assert [Span("", 2).name, Span("", 10).name, Span("").name] == ["s00002", "s00010", ""]
