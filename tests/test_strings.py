"""A column of strings behaves as a list of them, names that are not UTF-8 included."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.strings import Strings

NAMES = st.lists(st.binary(max_size=8).map(os.fsdecode), max_size=12)


@given(names=NAMES)
def test_a_column_has_the_strings_of_a_list(names: list[str]) -> None:
    """By index from either end, by slice and one after another."""
    column = Strings(names)

    assert list(column) == names == column[:] == [column[at] for at in range(len(names))]
    assert [column[-1 - at] for at in range(len(names))] == names[::-1]
    assert column == names
    assert column == Strings(names)


@given(one=NAMES, other=NAMES)
def test_columns_are_equal_if_their_strings_are(one: list[str], other: list[str]) -> None:
    """Not if only the joined bytes are."""
    assert (Strings(one) == Strings(other)) == (one == other)


def test_an_index_beyond_the_end_is_an_error() -> None:
    """As that of a list."""
    with pytest.raises(IndexError):
        Strings(["a"])[1]
