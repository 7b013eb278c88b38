"""Spans are numbers in paths; the highest version of each counts."""

from pathlib import Path

import pytest

from components.errors import BadInput, SettingsError
from components.ingest.survey import spans
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


@pytest.mark.parametrize("selection", ["", "newest", "last", "last 0", "7-3", "-1", "1-", "3,4"])
def test_an_invalid_selection_is_rejected(selection: str) -> None:
    """The message has the valid forms."""
    with pytest.raises(SettingsError, match="expected all, latest, 'last N', or A-B as in 3-7"):
        find("logs/*.csv", selection)


@pytest.mark.parametrize("data", ["a/{SPAN}/{SPAN}", "a/v{VERSION}", "a/{SPAN:0}", "a/{SPAN:x}", "a/{SPAN}/{VERSION:}"])
def test_an_invalid_pattern_is_rejected(data: str) -> None:
    """It is not taken as a file name."""
    with pytest.raises(SettingsError, match="SPAN"):
        find(data)


def test_span_names_sort_by_number() -> None:
    """Shard names contain them."""
    assert [Span("", 2).name, Span("", 10).name, Span("").name] == ["s00002", "s00010", ""]
