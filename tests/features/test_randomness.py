"""Random numbers per record are uniform, independent, and do not depend on the batch."""

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from components.features import randomness

MANY = 20_000


def drawn(seeds: list[list[int]] | NDArray[np.int64], count: int = 1, purpose: int = 0) -> NDArray[np.float32]:
    """Draws numbers."""
    numbers: NDArray[np.float32] = randomness.uniform(tf.constant(seeds, tf.int64), count, purpose).numpy()
    return numbers


def consecutive(axis: int) -> NDArray[np.int64]:
    """Returns consecutive seeds that differ in one part only."""
    seeds = np.full((MANY, 2), 17, np.int64)
    seeds[:, axis] = np.arange(MANY)
    return seeds


@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_are_uniform(axis: int) -> None:
    """For consecutive records and for consecutive epochs: every tenth of the range has a tenth of the numbers."""
    numbers = drawn(consecutive(axis))[:, 0]

    assert numbers.min() >= 0
    assert numbers.max() < 1
    np.testing.assert_allclose(np.histogram(numbers, 10, (0, 1))[0] / MANY, 0.1, atol=0.008)


@pytest.mark.parametrize("axis", [0, 1])
def test_consecutive_seeds_are_independent(axis: int) -> None:
    """Records and epochs are not correlated."""
    numbers = drawn(consecutive(axis))[:, 0]

    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


def test_numbers_of_one_record_are_independent() -> None:
    """For one purpose and between purposes."""
    numbers = np.concatenate([drawn(consecutive(0), 3, 0), drawn(consecutive(0), 3, 1)], axis=1)
    correlations = np.corrcoef(numbers.T) - np.eye(6)

    assert np.abs(correlations).max() < 0.03


def test_the_parts_of_a_seed_are_not_interchangeable() -> None:
    """Record 1 in epoch 2 is not record 2 in epoch 1."""
    numbers = drawn([[1, 2], [2, 1], [0, 3], [3, 0]])[:, 0]

    assert len(set(numbers.tolist())) == 4


def test_negative_and_huge_seeds_are_valid() -> None:
    """An id has 63 bits, and a seed may be negative."""
    numbers = drawn([[-1, 5], [1, 5], [2**63 - 1, 5], [-(2**63), -5]])[:, 0]

    assert len(set(numbers.tolist())) == 4


def test_the_numbers_never_change() -> None:
    """Otherwise the same seed would give another training."""
    np.testing.assert_allclose(
        drawn([[0, 0], [123456789, 42]], 2, 3), EXPECTED, rtol=1e-6
    )  # fmt: skip


def test_numbers_are_scaled_to_a_range() -> None:
    """From negative to positive."""
    np.testing.assert_allclose(randomness.between(tf.constant([0.0, 0.5, 1.0]), -2, 4).numpy(), [-2, 1, 4])


EXPECTED = [[0.25041478872299194, 0.516806960105896], [0.041658639907836914, 0.25008195638656616]]
