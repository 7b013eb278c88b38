"""Quantile bucket edges: exact for few distinct values, close for many, and independent of order."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from components.fitting.analysis import kept
from components.fitting.analysis.quantiles import ValueCounts

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(7)
ROWS, BUCKETS = 200_000, 16
COLUMNS = {
    "even": RANDOM.random(ROWS),
    "normal": RANDOM.normal(size=ROWS),
    "wide": RANDOM.lognormal(3, 2, ROWS),
    "far from zero": RANDOM.normal(20_000, 100, ROWS),
    "of all sizes": RANDOM.normal(size=ROWS) * 10.0 ** RANDOM.integers(-30, 30, ROWS),
    "mostly zero": np.where(RANDOM.random(ROWS) < 0.6, 0, RANDOM.normal(size=ROWS)),
    "few": RANDOM.integers(-20, 20, ROWS),
    "gaps": np.where(RANDOM.random(ROWS) < 0.5, np.nan, RANDOM.normal(size=ROWS)),
    "missing": np.full(ROWS, np.nan),
}
VALUES = np.stack(list(COLUMNS.values()), axis=1).astype(np.float32)


def edges(values: Any, workers: int = 1, batches: int = 1, buckets: int = BUCKETS) -> Any:
    """Returns the edges of batches that several workers have counted and sent."""
    whole = ValueCounts(values.shape[1], buckets)
    for part in np.array_split(values, workers):
        counted, sent = ValueCounts(values.shape[1], buckets), ValueCounts(values.shape[1], buckets)
        for batch in np.array_split(part, batches):
            counted.add(batch)
        kept.load(kept.dump([counted]), [sent])
        whole.merge(sent)
    return whole.result()


@pytest.fixture(scope="module")
def found() -> Any:
    """The edges of all columns."""
    return edges(VALUES)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in {"few", "missing", "mostly zero"}])
def test_buckets_have_equal_counts(found: Any, name: str) -> None:
    """To within a thousandth of all values."""
    place = list(COLUMNS).index(name)
    values = VALUES[:, place][np.isfinite(VALUES[:, place])]
    full = np.bincount(np.searchsorted(found[place], values, side="right"), minlength=BUCKETS) / len(values)

    np.testing.assert_allclose(full, 1 / BUCKETS, atol=1e-3)


@pytest.mark.parametrize("name", ["few", "mostly zero"])
def test_an_edge_is_the_value_at_its_rank(found: Any, name: str) -> None:
    """Several edges can have the same value."""
    place = list(COLUMNS).index(name)
    exact = np.sort(VALUES[:, place])[np.arange(1, BUCKETS) * ROWS // BUCKETS]

    np.testing.assert_allclose(found[place], exact, rtol=1e-3, atol=1e-30)


def test_a_column_without_values_has_one_bucket(found: Any) -> None:
    """Later values are below all edges."""
    assert found[list(COLUMNS).index("missing")].tolist() == [np.inf] * (BUCKETS - 1)


@pytest.mark.parametrize(("workers", "batches"), [(1, 7), (2, 1), (5, 40)])
def test_order_batches_and_workers_do_not_matter(found: Any, workers: int, batches: int) -> None:
    """D2: the edges are bit-identical."""
    np.testing.assert_array_equal(edges(RANDOM.permutation(VALUES), workers, batches), found)


@given(
    arrays.arrays(np.float32, st.tuples(st.integers(1, 40), st.just(1)), elements=st.floats(width=32)),
    st.integers(2, 9),
)
def test_the_edges_of_few_values_are_exact(values: Any, buckets: int) -> None:
    """For any floats: an edge is the value at its rank."""
    known = np.sort(values[np.isfinite(values)])
    expected = known[np.arange(1, buckets) * len(known) // buckets] if len(known) else np.full(buckets - 1, np.inf)

    np.testing.assert_array_equal(edges(values, 2, buckets=buckets)[0], expected)
