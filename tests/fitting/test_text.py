"""Texts: a vocabulary of tokens, defined by the settings, and out-of-vocabulary buckets."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from components.fitting import names, text
from components.fitting.fitted import Fitted
from components.records.roles import Column
from components.settings.transform import Fit

pytestmark = pytest.mark.slow  # starts Beam

RECORDS = {
    "said": ["The cat sat.", "the CAT ran", "", "the\ndog\0sat", "a cat"],
    "asked": ["why", "why not", "why", "", "not"],
    "script": ["猫猫犬", "猫", "", " ", "犬"],
}
SETTINGS = {
    "words": Fit(min_count=1),
    "frequent": Fit(min_count=2, unknown_buckets=3),
    "few": Fit(min_count=1, vocabulary=2),
    "cased": Fit(min_count=1, lower=False),
    "pairs": Fit(min_count=2, ngrams=2),
    "characters": Fit(min_count=1, tokens="characters"),
    "two": Fit(min_count=1, max_tokens=2),
    "last two": Fit(min_count=1, max_tokens=2, truncate="start"),
}
COLUMNS = {"characters": ["script"], "words": ["said", "asked"]}


def columns_of(settings: str) -> list[Column]:
    """Returns the columns that are fitted with the named settings."""
    return [Column(name, "text", "string") for name in COLUMNS.get(settings, ["said"])]


@pytest.fixture(scope="module")
def fitted(fit: Callable[..., dict[str, str]]) -> dict[str, Fitted]:
    """The graphs of all settings, by name."""
    functions = {name: _fit_by(columns_of(name), settings) for name, settings in SETTINGS.items()}
    return {name: Fitted(graph, SETTINGS[name]) for name, graph in fit(RECORDS, functions).items()}


def _fit_by(columns: list[Column], settings: Fit) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda inputs: text.fit(inputs, columns, settings)


def vocabulary(fitted: Fitted, place: int = 0) -> set[str]:
    """Returns the vocabulary of a text column."""
    return {token.decode() for token in fitted._output.vocabulary_by_name(names.token_vocabulary(place))}


def token_ids(fitted: Fitted, *texts: str, column: str = "said") -> Any:
    """Returns the token ids of each text."""
    return fitted.apply({column: tf.constant([each.encode() for each in texts])})[column].to_list()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("words", {"the", "cat", "sat", "ran", "dog", "a"}),
        ("frequent", {"the", "cat", "sat"}),
        ("few", {"the", "cat"}),
        ("cased", {"The", "the", "cat", "CAT", "sat", "ran", "dog", "a"}),
        ("pairs", {"the", "cat", "sat", "the cat"}),
        ("characters", {"猫", "犬"}),
        ("two", {"the", "cat", "dog", "a"}),
        ("last two", {"cat", "sat", "ran", "dog", "a"}),
    ],
)
def test_the_vocabulary_follows_the_settings(fitted: dict[str, Fitted], name: str, expected: set[str]) -> None:
    """A10: line breaks and NUL separate tokens like spaces; the text after them is read."""
    assert vocabulary(fitted[name]) == expected


@pytest.mark.parametrize(
    ("name", "size"), [("words", 6 + 1), ("frequent", 3 + 3), ("few", 2 + 1), ("characters", 2 + 1)]
)
def test_the_number_of_ids_includes_the_buckets(fitted: dict[str, Fitted], name: str, size: int) -> None:
    """The model's embedding needs as many rows."""
    assert len(fitted[name].tokens(0)) == size


def test_ids_are_in_order_of_descending_frequency(fitted: dict[str, Fitted]) -> None:
    """D2: tokens of equal frequency are in descending order of names."""
    assert token_ids(fitted["words"], "the cat", "CAT! The") == [[0, 1], [1, 0]]


def test_unknown_tokens_are_hashed_into_buckets(fitted: dict[str, Fitted]) -> None:
    """With ids after those of the vocabulary, the same in every call."""
    found = token_ids(fitted["frequent"], "the dog", "dog", "ran a mile and seven more")

    assert found[0][0] == 0
    assert found[0][1:] == found[1]
    assert {number for row in found[1:] for number in row} <= {3, 4, 5}


@pytest.mark.parametrize("nothing", ["", " \n\0", "...", "\u3000"])
def test_a_text_without_tokens_has_no_ids(fitted: dict[str, Fitted], nothing: str) -> None:
    """Empty, blank, or only punctuation."""
    assert token_ids(fitted["words"], "cat", nothing, "the") == [[1], [], [0]]


def test_each_text_column_has_its_own_vocabulary(fitted: dict[str, Fitted]) -> None:
    """Each can be transformed alone."""
    assert vocabulary(fitted["words"], 1) == {"why", "not"}
    assert fitted["words"].tokens(1) == ["why", "not", ("out of vocabulary", 0, 1)]
    assert token_ids(fitted["words"], "why not cat", column="asked") == [[0, 1, 2]]


def test_invalid_utf8_is_an_unknown_token(fitted: dict[str, Fitted]) -> None:
    """A10: it is not an error."""
    found = fitted["words"].apply({"said": tf.constant([b"the \xff\xfe cat"])})["said"].to_list()

    assert found == [[0, 6, 1]]


def test_no_token_beyond_the_limit_is_looked_up(fitted: dict[str, Fitted]) -> None:
    """A11: five million tokens among short texts become as many ids as the model sees; short texts do not change."""
    long = "the cat " * 2_500_000

    assert token_ids(fitted["two"], "a cat", long, "dog") == [*token_ids(fitted["two"], "a cat", "the cat", "dog")]
    assert [len(row) for row in token_ids(fitted["words"], "a cat", long)] == [2, 512]
