"""Vocabularies: exact counts, merged in any order, and files as TensorFlow Transform writes them."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.fitting.analysis import kept
from components.fitting.analysis.vocabulary import TokenCounts, Vocabulary

RANDOM = np.random.default_rng(7)
TOKENS = [b"%d" % number for number in RANDOM.zipf(1.2, 5000) % 900] + [b"a\0", b"a", b"\xff\xfe", "猫".encode()]


def counted(batches: Any) -> TokenCounts:
    """Returns the counts of batches, each kept and loaded again."""
    whole = TokenCounts()
    for batch in batches:
        part, loaded = TokenCounts(), TokenCounts()
        found = Counter(batch)
        part.add(np.array([*found], object), np.array([*found.values()], np.int64))
        kept.load(kept.dump([part]), [loaded])
        whole.merge(loaded)
    return whole


def ordered(tokens: Any) -> list[tuple[bytes, int]]:
    """Returns the vocabulary by Python's own sort."""
    return sorted(Counter(tokens).items(), key=lambda each: (each[1], each[0]), reverse=True)


@pytest.mark.parametrize("parts", [1, 2, 9])
def test_merged_counts_are_those_of_all_tokens(parts: int) -> None:
    """In any order; equal counts in descending order of bytes."""
    shuffled = [TOKENS[place] for place in RANDOM.permutation(len(TOKENS))]

    assert counted([shuffled[start::parts] for start in range(parts)]).ordered() == ordered(TOKENS)


@given(st.lists(st.lists(st.binary(max_size=3), max_size=8), max_size=4))
def test_any_bytes_are_counted(batches: list[list[bytes]]) -> None:
    """Zero bytes, and strings of length 0."""
    assert counted(batches).ordered() == ordered([token for batch in batches for token in batch])


def test_rare_tokens_are_left_out_before_the_vocabulary_is_cut() -> None:
    """As `transform.min_count` and `transform.vocabulary` say."""
    expected = [(token, count) for token, count in ordered(TOKENS) if count >= 3][:50]

    assert counted([TOKENS]).ordered(3, 50) == expected


def test_the_file_has_one_token_per_line() -> None:
    """With its count if it is asked for; a vocabulary without a token has one that no text contains."""
    found = counted([[b"b", b"a", b"b"]])

    assert Vocabulary("v").files(found) == {"v": b"b\na\n"}
    assert Vocabulary("v", counts=True).files(found) == {"v": b"2 b\n1 a\n"}
    assert Vocabulary("v", min_count=3).files(found) == {"v": b"49d0cd50-04bb-48c0-bc6f-5b575dce351a\n"}
