"""Mean and variance are exact and do not depend on order, batches or the number of workers."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from components.fitting.analysis import kept
from components.fitting.analysis.moments import Sums

RANDOM = np.random.default_rng(7)
ROWS = 3000
COLUMNS = {
    "wide": RANDOM.lognormal(3, 2, ROWS),
    "far from zero": RANDOM.normal(1e6, 1, ROWS),
    "tiny": RANDOM.normal(0, 1e-18, ROWS),
    "below all": RANDOM.normal(0, 1e-42, ROWS),
    "huge": RANDOM.normal(0, 1e37, ROWS),
    "of all sizes": RANDOM.normal(size=ROWS) * 10.0 ** RANDOM.integers(-30, 30, ROWS),
    "bytes": RANDOM.integers(0, 256, ROWS),
    "nothing": np.zeros(ROWS),
    "one value": np.full(ROWS, 0.1),
    "gaps": np.where(RANDOM.random(ROWS) < 0.5, np.nan, RANDOM.random(ROWS)),
    "missing": np.full(ROWS, np.nan),
    "infinite": np.where(RANDOM.random(ROWS) < 0.1, np.inf, RANDOM.random(ROWS)),
}
VALUES = np.stack(list(COLUMNS.values()), axis=1).astype(np.float32)


def moments(values: Any, workers: int = 1, batches: int = 1) -> Any:
    """Returns the moments of batches that several workers have summed and sent."""
    whole = Sums(values.shape[1])
    for part in np.array_split(values, workers):
        counted, sent = Sums(values.shape[1]), Sums(values.shape[1])
        for batch in np.array_split(part, batches):
            counted.add(batch)
        kept.load(kept.dump([counted]), [sent])
        whole.merge(sent)
    return whole.result()


def by_fractions(values: Any) -> tuple[float, float]:
    """Returns mean and variance of a column in exact arithmetic."""
    known = [Fraction(float(value)) for value in values if np.isfinite(value)]
    if not known:
        return np.nan, np.nan
    mean = sum(known, Fraction()) / len(known)
    return float(mean), float(sum(((value - mean) ** 2 for value in known), Fraction()) / len(known))


@pytest.mark.parametrize("name", COLUMNS)
def test_moments_are_exact_results_rounded_once(name: str) -> None:
    """Non-finite values are not counted."""
    values = VALUES[:, list(COLUMNS).index(name), None]
    with np.errstate(over="ignore"):
        expected = np.array(by_fractions(values[:, 0])).astype(np.float32)

    np.testing.assert_array_equal(moments(values)[:, 0], expected)


@pytest.mark.parametrize(("workers", "batches"), [(1, 7), (2, 1), (5, 40)])
def test_order_batches_and_workers_do_not_matter(workers: int, batches: int) -> None:
    """D2: the moments are bit-identical."""
    shuffled = RANDOM.permutation(VALUES)

    np.testing.assert_array_equal(moments(shuffled, workers, batches), moments(VALUES))


@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 9), st.just(1)), elements=st.floats(width=32)))
def test_moments_of_any_floats_are_exact(values: Any) -> None:
    """From the smallest to the largest."""
    with np.errstate(over="ignore"):
        expected = np.array(by_fractions(values[:, 0])).astype(np.float32)

    np.testing.assert_array_equal(moments(values, 2)[:, 0], expected)


def test_moments_without_values_are_nan() -> None:
    """As for a split without records."""
    np.testing.assert_array_equal(moments(np.zeros([0, 2], np.float32)), np.full([2, 2], np.nan))
