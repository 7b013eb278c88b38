"""Table columns: numbers become z-scores or bucket indices, categories become ids, and missing values stay missing.

Every column has four records. Missing values are given as every reader of the schema sees them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.fitting import escaping, names, table
from components.fitting.fitted import Fitted
from components.records.roles import MISSING, Column
from components.settings.transform import Transform

pytestmark = pytest.mark.slow  # starts Beam

NAN, INF, NO_INT = float("nan"), float("inf"), int(MISSING["int64"])
NUMBERS: dict[str, tuple[Column, list[Any]]] = {
    "plain": (Column("plain", "number", "float32"), [1.0, 2.0, 3.0, 6.0]),
    "gaps": (Column("gaps", "number", "float32"), [1.0, NAN, 5.0, INF]),
    "flat": (Column("flat", "number", "float32"), [4.0, 4.0, 4.0, 4.0]),
    "never": (Column("never", "number", "float32"), [NAN, NAN, NAN, -INF]),
    "huge": (Column("huge", "number", "float32"), [3e38, -3e38, 0.0, 1.0]),
    "count": (Column("count", "number", "int64"), [1, NO_INT, 3, 5]),
    "day": (Column("day", "date", "string"), ["1970-01-02", "1970-01-04", "soon", ""]),
}
CATEGORIES: dict[str, tuple[Column, list[Any]]] = {
    "kind": (Column("kind", "category", "string"), ["b", "two\nlines", "b", ""]),
    "odd": (Column("odd", "category", "string"), ["\\n", "\n", "\\n", "\r"]),
    "code": (Column("code", "category", "int64"), [7, NO_INT, 7, -3]),
    "empty": (Column("empty", "category", "string"), ["", "", "", ""]),
    "many": (Column("many", "category", "string"), ["a", "a", "b", "c"]),
}
COLUMNS = [column for column, _ in (NUMBERS | CATEGORIES).values()]
RECORDS = {name: values for name, (_, values) in (NUMBERS | CATEGORIES).items()}
SETTINGS = {
    "zscore": Transform(categories=2),
    "buckets": Transform(categories=2, numbers="buckets", buckets=2),
}


@pytest.fixture(scope="module")
def fitted(fit: Callable[..., dict[str, str]]) -> dict[str, Fitted]:
    """All columns, fitted with both settings."""
    functions = {name: _fit_by(settings) for name, settings in SETTINGS.items()}
    return {name: Fitted(graph, SETTINGS[name]) for name, graph in fit(RECORDS, functions).items()}


def _fit_by(settings: Transform) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda inputs: table.fit(inputs, COLUMNS, settings)


def applied(fitted: Fitted, **changed: list[Any]) -> dict[str, Any]:
    """Returns the transformed records, with some columns replaced."""
    dtypes = {column.name: column.dtype for column in COLUMNS}
    rows = RECORDS | changed
    return {
        key: value.numpy()
        for key, value in fitted.apply({name: tf.constant(rows[name], dtypes[name]) for name in rows}).items()
    }


def scores_of(found: dict[str, Any], name: str) -> tuple[list[float], list[float]]:
    """Returns a column's z-scores and its indicators of missing values."""
    place = list(NUMBERS).index(name)
    matrix = found["table_numbers"]
    return matrix[:, place].astype(float).round(4).tolist(), matrix[:, len(NUMBERS) + place].tolist()


class TestScores:
    """z-scores; a missing value is 0, with an indicator."""

    @pytest.mark.parametrize(
        ("name", "scores", "missing"),
        [
            ("plain", [-1.069, -0.5345, 0.0, 1.6036], [0, 0, 0, 0]),
            ("gaps", [-1.0, 0.0, 1.0, 0.0], [0, 1, 0, 1]),
            ("flat", [0.0, 0.0, 0.0, 0.0], [0, 0, 0, 0]),
            ("never", [0.0, 0.0, 0.0, 0.0], [1, 1, 1, 1]),
            ("count", [-1.2247, 0.0, 0.0, 1.2247], [0, 1, 0, 0]),
            ("day", [-1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1]),
        ],
    )
    def test_a_column(self, fitted: dict[str, Fitted], name: str, scores: list[float], missing: list[float]) -> None:
        """NaN, infinity, the integer for missing values, an empty text and an invalid date are missing."""
        assert scores_of(applied(fitted["zscore"]), name) == (scores, missing)

    def test_scores_are_finite_if_the_variance_overflows(self, fitted: dict[str, Fitted]) -> None:
        """A9: the model reads neither infinity nor NaN."""
        scores, missing = scores_of(applied(fitted["zscore"]), "huge")

        assert np.isfinite(scores).all()
        assert missing == [0, 0, 0, 0]

    def test_a_column_without_training_values_scores_zero(self, fitted: dict[str, Fitted]) -> None:
        """It has no mean; later values are not marked as missing."""
        found = applied(fitted["zscore"], never=[3.0, NAN, 0.0, -1.0])

        assert scores_of(found, "never") == ([0.0, 0.0, 0.0, 0.0], [0, 1, 0, 0])

    def test_a_constant_column_scores_the_difference(self, fitted: dict[str, Fitted]) -> None:
        """Its variance is 0."""
        assert scores_of(applied(fitted["zscore"], flat=[4.0, 9.0, NAN, 3.0]), "flat") == ([0, 5, 0, -1], [0, 0, 1, 0])

    def test_the_matrix_has_two_values_per_column(self, fitted: dict[str, Fitted]) -> None:
        """float32, all scores before all indicators."""
        found = applied(fitted["zscore"])["table_numbers"]

        assert (found.shape, found.dtype) == ((4, 2 * len(NUMBERS)), np.float32)


class TestBuckets:
    """Quantile bucket indices; -1 for missing values."""

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("plain", [0, 0, 1, 1]),
            ("gaps", [0, -1, 1, -1]),
            ("never", [-1, -1, -1, -1]),
            ("count", [0, -1, 1, 1]),
            ("day", [0, 1, -1, -1]),
        ],
    )
    def test_a_column(self, fitted: dict[str, Fitted], name: str, expected: list[int]) -> None:
        """After the categories, in the order of the columns."""
        found = applied(fitted["buckets"])["table_categories"]

        assert found[:, len(CATEGORIES) + list(NUMBERS).index(name)].tolist() == expected

    def test_bucket_indices_are_below_their_size(self, fitted: dict[str, Fitted]) -> None:
        """There are only categories, and no scores."""
        found = applied(fitted["buckets"], never=[1.0, 2.0, 3.0, 4.0], flat=[-9.0, 4.0, 9.0, NAN])

        assert found.keys() == {"table_categories"}
        sizes = np.array([len(values) for values in fitted["buckets"].categories(COLUMNS).values()])
        assert ((found["table_categories"] >= -1) & (found["table_categories"] < sizes)).all()


class TestCategories:
    """Ids by descending frequency; -1 for out-of-vocabulary values."""

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("kind", [0, 1, 0, -1]),
            ("code", [0, -1, 0, 1]),
            ("empty", [-1, -1, -1, -1]),
        ],
    )
    def test_a_column(self, fitted: dict[str, Fitted], name: str, expected: list[int]) -> None:
        """Missing values are out of vocabulary, also in a column without values."""
        assert self.ids(fitted, name) == expected

    def test_a_line_break_and_its_escape_differ(self, fitted: dict[str, Fitted]) -> None:
        r"""A backslash and an n are not a line break; of the two rarer values, one is unknown."""
        found = self.ids(fitted, "odd")

        assert (found[0], found[2], sorted([found[1], found[3]])) == (0, 0, [-1, 1])

    def test_the_most_frequent_values_are_kept(self, fitted: dict[str, Fitted]) -> None:
        """Here, two."""
        found = self.ids(fitted, "many")

        assert (found[:2], sorted(found[2:])) == ([0, 0], [-1, 1])

    def test_unseen_values_are_unknown(self, fitted: dict[str, Fitted]) -> None:
        """Also in a column without values in training."""
        unseen: dict[str, list[Any]] = {
            "kind": ["lines", "B", "two", "zzz"],
            "code": [8, 70, 0, 3],
            "empty": ["a", "b", "\n", "c"],
        }
        found = applied(fitted["zscore"], **unseen)["table_categories"]
        places = [list(CATEGORIES).index(name) for name in unseen]

        assert found[:, places].tolist() == [[-1, -1, -1]] * 4

    def test_sizes_are_those_of_the_vocabularies(self, fitted: dict[str, Fitted]) -> None:
        """One more than the largest id; an empty vocabulary has size 1."""
        found, bucketed = (fitted[name].categories(COLUMNS) for name in ("zscore", "buckets"))

        assert (list(found), [len(values) for values in found.values()]) == (list(CATEGORIES), [2, 2, 2, 1, 2])
        assert bucketed == {**found, **{name: [("bucket", 0, 2), ("bucket", 1, 2)] for name in NUMBERS}}
        assert found["code"] == [("7",), ("-3",)]

    @staticmethod
    def ids(fitted: dict[str, Fitted], name: str) -> Any:
        """Returns a column's ids."""
        return applied(fitted["zscore"])["table_categories"][:, list(CATEGORIES).index(name)].tolist()


def test_without_columns_nothing_is_fitted() -> None:
    """The outputs are empty."""
    stored = {"x": tf.constant([1.0])}

    assert table.fit(stored, [], Transform()) == {}


def test_vocabularies_are_escaped_lines(fitted: dict[str, Fitted]) -> None:
    """`unescape` returns the values."""
    output = fitted["zscore"]._output
    lines = output.vocabulary_by_name(names.category_vocabulary(0))

    assert [escaping.unescape(line.decode()) for line in lines] == ["b", "two\nlines"]
