"""Texts: a vocabulary of tokens, as the settings say what a token is; what it does not hold has a number too."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from components.fitting import names, text
from components.fitting.fitted import Fitted
from components.records.roles import Column
from components.settings.transform import Transform

pytestmark = pytest.mark.slow  # starts Beam

RECORDS = {
    "said": ["The cat sat.", "the CAT ran", "", "the\ndog\0sat", "a cat"],
    "asked": ["why", "why not", "why", "", "not"],
    "script": ["猫猫犬", "猫", "", " ", "犬"],
}
WAYS = {
    "words": Transform(min_count=1),
    "frequent": Transform(min_count=2, unknown_buckets=3),
    "few": Transform(min_count=1, vocabulary=2),
    "cased": Transform(min_count=1, lower=False),
    "pairs": Transform(min_count=2, ngrams=2),
    "characters": Transform(min_count=1, tokens="characters"),
}
COLUMNS = {"characters": ["script"], "words": ["said", "asked"]}


def columns_of(way: str) -> list[Column]:
    """Returns what is fitted in a way."""
    return [Column(name, "text", "string") for name in COLUMNS.get(way, ["said"])]


@pytest.fixture(scope="module")
def fitted(fit: Callable[..., dict[str, str]]) -> dict[str, Fitted]:
    """All ways."""
    ways = {way: _fit_by(columns_of(way), settings) for way, settings in WAYS.items()}
    return {way: Fitted(graph, WAYS[way]) for way, graph in fit(RECORDS, ways).items()}


def _fit_by(columns: list[Column], settings: Transform) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda inputs: text.fit(inputs, columns, settings)


def vocabulary(fitted: Fitted, place: int = 0) -> set[str]:
    """Returns what is told apart."""
    return {token.decode() for token in fitted._output.vocabulary_by_name(names.token_vocabulary(place))}


def numbers(fitted: Fitted, *texts: str, column: str = "said") -> Any:
    """Returns the numbers of the tokens of each text."""
    return fitted.apply({column: tf.constant([each.encode() for each in texts])})[column].to_list()


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("words", {"the", "cat", "sat", "ran", "dog", "a"}),
        ("frequent", {"the", "cat", "sat"}),
        ("few", {"the", "cat"}),
        ("cased", {"The", "the", "cat", "CAT", "sat", "ran", "dog", "a"}),
        ("pairs", {"the", "cat", "sat", "the cat"}),
        ("characters", {"猫", "犬"}),
    ],
)
def test_what_is_told_apart(fitted: dict[str, Fitted], way: str, expected: set[str]) -> None:
    """A10: line breaks and NUL are borders like any blank; nothing is cut off behind them."""
    assert vocabulary(fitted[way]) == expected


@pytest.mark.parametrize(
    ("way", "size"), [("words", 6 + 1), ("frequent", 3 + 3), ("few", 2 + 1), ("characters", 2 + 1)]
)
def test_the_model_is_told_how_many_numbers_there_are(fitted: dict[str, Fitted], way: str, size: int) -> None:
    """Those of the unknown included."""
    assert fitted[way].tokens(0) == size


def test_numbers_fall_with_frequency(fitted: dict[str, Fitted]) -> None:
    """Three times each, the most frequent; D2: of equals, the later by name comes first."""
    assert numbers(fitted["words"], "the cat", "CAT! The") == [[0, 1], [1, 0]]


def test_what_is_unknown_has_a_number_behind_all_others(fitted: dict[str, Fitted]) -> None:
    """The same each time, in one of as many kinds as were asked for."""
    found = numbers(fitted["frequent"], "the dog", "dog", "ran a mile and seven more")

    assert found[0][0] == 0
    assert found[0][1:] == found[1]
    assert {number for row in found[1:] for number in row} <= {3, 4, 5}


@pytest.mark.parametrize("nothing", ["", " \n\0", "...", "\u3000"])
def test_a_text_without_a_token_has_no_numbers(fitted: dict[str, Fitted], nothing: str) -> None:
    """Blank, empty, or nothing but punctuation; its neighbours keep theirs."""
    assert numbers(fitted["words"], "cat", nothing, "the") == [[1], [], [0]]


def test_each_text_of_a_record_has_its_own_vocabulary(fitted: dict[str, Fitted]) -> None:
    """And can be applied without the others."""
    assert vocabulary(fitted["words"], 1) == {"why", "not"}
    assert fitted["words"].tokens(1) == 3
    assert numbers(fitted["words"], "why not cat", column="asked") == [[0, 1, 2]]


def test_bytes_that_are_no_text_are_unknown_tokens(fitted: dict[str, Fitted]) -> None:
    """A10: invalid UTF-8 is read, not refused."""
    found = fitted["words"].apply({"said": tf.constant([b"the \xff\xfe cat"])})["said"].to_list()

    assert found == [[0, 6, 1]]
