"""Escaping line breaks is lossless."""

import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from components.fitting import escaping

# Surrogates cannot be encoded as UTF-8.
TEXTS = st.lists(
    st.text(st.characters(codec="utf-8") | st.sampled_from("\\\n\rnr")), min_size=1, max_size=20, unique=True
)


def escape(texts: list[str]) -> list[str]:
    """Returns the escaped strings."""
    return [line.decode() for line in escaping.escape(tf.constant([text.encode() for text in texts])).numpy()]


@given(TEXTS)
@example(["\\n", "\n", "\\\\n", "\\\n", "\r", "\\r", "\\", "\\\\", "", "\0"])
def test_unescape_returns_the_original(texts: list[str]) -> None:
    """With line breaks, backslashes before them, and any other character."""
    assert [escaping.unescape(line) for line in escape(texts)] == texts


@given(TEXTS)
def test_escaped_strings_have_no_line_break(texts: list[str]) -> None:
    """A line break would add an entry to the vocabulary."""
    assert [line for line in escape(texts) if "\n" in line or "\r" in line] == []


def test_other_characters_are_not_escaped() -> None:
    """Vocabulary files stay readable."""
    assert escape(["oak", "猫 🐈", " tab\tbed "]) == ["oak", "猫 🐈", " tab\tbed "]
