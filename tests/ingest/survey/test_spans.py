"""Spans are told by numbers in names; of each the highest version counts."""

from pathlib import Path

import pytest

from components.errors import BadInput, SettingsError
from components.ingest.survey import spans
from components.ingest.survey.spans import Span

PATHS = ["logs/1/v1", "logs/2/v1", "logs/2/v3", "logs/10/v1", "logs/notes", "logs/2/vx"]


def listed(pattern: str) -> list[str]:
    """Matches the paths above as a shell does."""
    return [path for path in PATHS if Path(path).match(pattern) and path.count("/") == pattern.count("/")]


def find(data: str, wanted: str = "all") -> list[tuple[int | None, int | None, str]]:
    """Finds spans among the paths above."""
    return [(span.number, span.version, span.data) for span in spans.find(data, wanted, listed)]


def test_data_without_a_span_is_one_whole() -> None:
    """Nothing is looked for."""
    assert spans.find("logs/*.csv", "all", listed) == (Span("logs/*.csv"),)


def test_spans_come_in_the_order_of_their_numbers_at_their_highest_version() -> None:
    """10 comes after 2, and version 3 of span 2 is the one that counts."""
    assert find("logs/{SPAN}/v{VERSION}/*.csv") == [
        (1, 1, "logs/1/v1/*.csv"),
        (2, 3, "logs/2/v3/*.csv"),
        (10, 1, "logs/10/v1/*.csv"),
    ]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [("latest", [10]), ("last 2", [2, 10]), ("last 9", [1, 2, 10]), ("2-10", [2, 10]), ("1-1", [1])],
)
def test_spans_can_be_chosen(wanted: str, numbers: list[int]) -> None:
    """By age or by number."""
    assert [number for number, _, _ in find("logs/{SPAN}/v{VERSION}/*.csv", wanted)] == numbers


def test_a_width_says_how_many_digits_there_are() -> None:
    """A number of another length is not a span."""
    assert find("logs/{SPAN:2}/v{VERSION}") == [(10, 1, "logs/10/v1")]


def test_a_wish_for_spans_that_are_not_there_says_which_are() -> None:
    """C7: never an older span in its stead."""
    with pytest.raises(BadInput) as refused:
        find("logs/{SPAN}/v{VERSION}/*.csv", "3-9")

    assert str(refused.value) == (
        "logs/{SPAN}/v{VERSION}/*.csv: 0 examples: no span for ingest.spans = 3-9; found spans 1, 2, 10"
    )


@pytest.mark.parametrize("wanted", ["", "newest", "last", "last 0", "7-3", "-1", "1-", "3,4"])
def test_a_wish_that_means_nothing_is_refused(wanted: str) -> None:
    """Before anything is listed."""
    with pytest.raises(SettingsError, match="expected all, latest, 'last N', or A-B as in 3-7"):
        find("logs/*.csv", wanted)


@pytest.mark.parametrize("data", ["a/{SPAN}/{SPAN}", "a/v{VERSION}", "a/{SPAN:0}", "a/{SPAN:x}", "a/{SPAN}/{VERSION:}"])
def test_a_pattern_that_means_nothing_is_refused(data: str) -> None:
    """It is not taken for a file's name."""
    with pytest.raises(SettingsError, match="SPAN"):
        find(data)


def test_names_of_spans_sort_like_their_numbers() -> None:
    """They stand in the names of shards."""
    assert [Span("", 2).name, Span("", 10).name, Span("").name] == ["s00002", "s00010", ""]
