"""The table encoder takes numbers, categories or both, and separates columns."""

from typing import Any

import keras
import numpy as np
import pytest

from components.models import table

SIZES = [3, 5]


def numbers_encoder(columns: int) -> Any:
    """Returns a seeded encoder of numbers."""
    keras.utils.set_random_seed(3)
    numbers = keras.Input([columns])
    return keras.Model(numbers, table.encode(numbers))


@pytest.fixture(scope="module")
def categories() -> Any:
    """A seeded encoder of two category columns."""
    keras.utils.set_random_seed(3)
    ids = keras.Input([2], dtype="int64")
    return keras.Model(ids, table.encode(categories=ids, sizes=SIZES))


def distinct(encodings: Any) -> int:
    """Returns the number of different encodings."""
    return len({tuple(np.round(row, 4)) for row in np.asarray(encodings)})


def test_numbers_alone_are_encoded() -> None:
    """With the same width as any table."""
    assert numbers_encoder(3)(np.ones((2, 3), np.float32)).shape == (2, 64)


def test_every_category_of_every_column_has_its_own_embedding(categories: Any) -> None:
    """The same id in another column is another category."""
    ids = np.array([[first, second] for first in range(SIZES[0]) for second in range(SIZES[1])])

    assert distinct(categories(ids)) == 15


def test_out_of_vocabulary_ids_share_one_embedding(categories: Any) -> None:
    """Whether negative or too large; none becomes a category of the next column."""
    ids = np.array([[-1, 0], [3, 0], [1000, 0], [0, 0], [1, 0], [2, 0]])
    found = categories(ids).numpy()

    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert distinct(found) == 4


def test_z_scores_are_clipped_at_ten() -> None:
    """One outlier does not dominate the row."""
    encoder = numbers_encoder(2)
    found = encoder(np.array([[10, 1], [1e30, 1], [-1e30, 1]], np.float32)).numpy()

    np.testing.assert_array_equal(found[0], found[1])
    assert np.isfinite(found).all()
    assert not np.allclose(found[0], found[2])


def test_every_column_needs_its_size() -> None:
    """The message has both counts."""
    with pytest.raises(ValueError, match=r"2 category columns, but 1 sizes: \[3\]; expected one each"):
        table.encode(categories=keras.Input([2], dtype="int64"), sizes=[3])


def test_a_table_without_columns_is_rejected() -> None:
    """The message says what was expected."""
    with pytest.raises(ValueError, match="the table has no columns; expected numbers, categories or both"):
        table.encode()
