"""Columns of a table: numbers are scaled or put into buckets, categories numbered, and gaps never become a number.

Every column has four records. What is missing stands there as every reader of the schema sees it.
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
WAYS = {
    "zscore": Transform(categories=2),
    "buckets": Transform(categories=2, numbers="buckets", buckets=2),
}


@pytest.fixture(scope="module")
def fitted(fit: Callable[..., dict[str, str]]) -> dict[str, Fitted]:
    """All columns, in both ways."""
    ways = {way: _fit_by(settings) for way, settings in WAYS.items()}
    return {way: Fitted(graph, WAYS[way]) for way, graph in fit(RECORDS, ways).items()}


def _fit_by(settings: Transform) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda inputs: table.fit(inputs, COLUMNS, settings)


def applied(fitted: Fitted, **changed: list[Any]) -> dict[str, Any]:
    """Returns what the graph makes of the records, some columns of which may be others."""
    dtypes = {column.name: column.dtype for column in COLUMNS}
    rows = RECORDS | changed
    return {
        key: value.numpy()
        for key, value in fitted.apply({name: tf.constant(rows[name], dtypes[name]) for name in rows}).items()
    }


def scores_of(found: dict[str, Any], name: str) -> tuple[list[float], list[float]]:
    """Returns a column's scores, and where it is missing."""
    place = list(NUMBERS).index(name)
    matrix = found["table_numbers"]
    return matrix[:, place].astype(float).round(4).tolist(), matrix[:, len(NUMBERS) + place].tolist()


class TestScores:
    """Deviations from the mean; what is missing is at the mean, and marked."""

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
        """NaN, infinity, the integer for nothing, an empty text and what is no date are missing."""
        assert scores_of(applied(fitted["zscore"]), name) == (scores, missing)

    def test_values_that_no_variance_can_hold_say_nothing(self, fitted: dict[str, Fitted]) -> None:
        """A9: they do not become infinite or NaN on their way to the model."""
        scores, missing = scores_of(applied(fitted["zscore"]), "huge")

        assert np.isfinite(scores).all()
        assert missing == [0, 0, 0, 0]

    def test_a_value_where_training_had_none_says_nothing(self, fitted: dict[str, Fitted]) -> None:
        """There is no mean to compare it with; it is not marked as missing, and it is a number."""
        found = applied(fitted["zscore"], never=[3.0, NAN, 0.0, -1.0])

        assert scores_of(found, "never") == ([0.0, 0.0, 0.0, 0.0], [0, 1, 0, 0])

    def test_a_value_where_training_had_but_one_is_its_distance(self, fitted: dict[str, Fitted]) -> None:
        """Without a deviation there is no unit."""
        assert scores_of(applied(fitted["zscore"], flat=[4.0, 9.0, NAN, 3.0]), "flat") == ([0, 5, 0, -1], [0, 0, 1, 0])

    def test_the_matrix_has_two_places_a_column(self, fitted: dict[str, Fitted]) -> None:
        """float32, all scores before all marks."""
        found = applied(fitted["zscore"])["table_numbers"]

        assert (found.shape, found.dtype) == ((4, 2 * len(NUMBERS)), np.float32)


class TestBuckets:
    """Equally full ones; what is missing is in none."""

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

    def test_there_are_no_scores_then(self, fitted: dict[str, Fitted]) -> None:
        """All is categories, and each of them has as many numbers as the model is told."""
        found = applied(fitted["buckets"], never=[1.0, 2.0, 3.0, 4.0], flat=[-9.0, 4.0, 9.0, NAN])

        assert found.keys() == {"table_categories"}
        sizes = np.array(fitted["buckets"].categories(COLUMNS))
        assert ((found["table_categories"] >= -1) & (found["table_categories"] < sizes)).all()


class TestCategories:
    """A number by falling frequency; -1 for what the vocabulary does not hold."""

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("kind", [0, 1, 0, -1]),
            ("code", [0, -1, 0, 1]),
            ("empty", [-1, -1, -1, -1]),
        ],
    )
    def test_a_column(self, fitted: dict[str, Fitted], name: str, expected: list[int]) -> None:
        """What is missing is unknown, and a column without any value is nothing but that."""
        assert self.numbers(fitted, name) == expected

    def test_a_line_break_and_its_escape_are_two(self, fitted: dict[str, Fitted]) -> None:
        r"""A backslash and an n are not a line break; two are kept, so one of the rarer ones is unknown."""
        found = self.numbers(fitted, "odd")

        assert (found[0], found[2], sorted([found[1], found[3]])) == (0, 0, [-1, 1])

    def test_the_most_frequent_are_kept(self, fitted: dict[str, Fitted]) -> None:
        """Two here."""
        found = self.numbers(fitted, "many")

        assert (found[:2], sorted(found[2:])) == ([0, 0], [-1, 1])

    def test_what_was_not_seen_is_unknown(self, fitted: dict[str, Fitted]) -> None:
        """Also in a column without any value in training."""
        unseen: dict[str, list[Any]] = {
            "kind": ["lines", "B", "two", "zzz"],
            "code": [8, 70, 0, 3],
            "empty": ["a", "b", "\n", "c"],
        }
        found = applied(fitted["zscore"], **unseen)["table_categories"]
        places = [list(CATEGORIES).index(name) for name in unseen]

        assert found[:, places].tolist() == [[-1, -1, -1]] * 4

    def test_sizes_are_those_of_the_vocabularies(self, fitted: dict[str, Fitted]) -> None:
        """One more than the largest number; an empty vocabulary counts as one."""
        assert fitted["zscore"].categories(COLUMNS) == [2, 2, 2, 1, 2]
        assert fitted["buckets"].categories(COLUMNS) == [2, 2, 2, 1, 2] + [2] * len(NUMBERS)

    @staticmethod
    def numbers(fitted: dict[str, Fitted], name: str) -> Any:
        """Returns a column's numbers."""
        return applied(fitted["zscore"])["table_categories"][:, list(CATEGORIES).index(name)].tolist()


def test_a_column_at_a_time_is_what_was_asked_for() -> None:
    """Numbers alone have no categories, categories alone no numbers."""
    stored = {"x": tf.constant([1.0])}

    assert table.fit(stored, [], Transform()) == {}


def test_vocabularies_are_lines_that_can_be_read_back(fitted: dict[str, Fitted]) -> None:
    """With what was escaped."""
    output = fitted["zscore"]._output
    lines = output.vocabulary_by_name(names.category_vocabulary(0))

    assert [escaping.unescape(line.decode()) for line in lines] == ["b", "two\nlines"]
