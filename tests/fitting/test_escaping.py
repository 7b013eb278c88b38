"""Names on a line of their own: nothing is lost, and no two become one."""

import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from components.fitting import escaping

# Surrogates have no UTF-8.
TEXTS = st.lists(
    st.text(st.characters(codec="utf-8") | st.sampled_from("\\\n\rnr")), min_size=1, max_size=20, unique=True
)


def one_line(texts: list[str]) -> list[str]:
    """Returns them as they are stored."""
    return [line.decode() for line in escaping.one_line(tf.constant([text.encode() for text in texts])).numpy()]


@given(TEXTS)
@example(["\\n", "\n", "\\\\n", "\\\n", "\r", "\\r", "\\", "\\\\", "", "\0"])
def test_every_name_comes_back(texts: list[str]) -> None:
    """Line breaks, backslashes before them, and everything else."""
    assert [escaping.restored(line) for line in one_line(texts)] == texts


@given(TEXTS)
def test_no_line_holds_a_break(texts: list[str]) -> None:
    """Else a vocabulary would have a line too many."""
    assert [line for line in one_line(texts) if "\n" in line or "\r" in line] == []


def test_a_plain_name_stays_as_it_is() -> None:
    """Vocabularies can be read by people."""
    assert one_line(["oak", "猫 🐈", " tab\tbed "]) == ["oak", "猫 🐈", " tab\tbed "]
