"""Table columns as one feature: missing values are filled, and matrices are as wide as the fitted graph makes them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from components import features
from components.features.table import TableFeature, from_columns
from components.records.roles import MISSING, Column
from components.settings.input import Input

SIZE, COUNT, KIND = (
    Column("size", "number", "float32"), Column("count", "number", "int64"), Column("kind", "category", "string"),
)  # fmt: skip


class Doubled:
    """A fitted graph: numbers doubled, and the length of the kind."""

    def apply(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the matrices of the given columns."""
        numbers = [tf.cast(columns[name], tf.float32) for name in ("size", "count") if name in columns]
        found = {"table_numbers": 2 * tf.stack(numbers, axis=1)} if numbers else {}
        if "kind" in columns:
            found["table_categories"] = tf.cast(tf.strings.length(columns["kind"]), tf.int64)[:, tf.newaxis]
        return found


FITTED: Any = Doubled()
TABLE = TableFeature((SIZE, COUNT, KIND), FITTED)


def parsed(*records: dict[str, Any]) -> Any:
    """Returns the columns of records as the Reader parses them."""
    return tf.io.parse_example([example(**each) for each in records], TABLE.spec())


def example(**values: Any) -> bytes:
    """Returns a record."""
    made = tf.train.Example()
    for name, value in values.items():
        feature = made.features.feature[name]
        kinds = {float: feature.float_list, int: feature.int64_list, bytes: feature.bytes_list}
        kinds[type(value)].value.append(value)
    return bytes(made.SerializeToString())


def test_a_missing_value_is_filled() -> None:
    """Training, evaluation and serving share this spec."""
    found = parsed({"size": 1.5, "count": 3, "kind": b"oak"}, {})

    np.testing.assert_array_equal(found["size"], np.array([1.5, np.nan], np.float32))
    assert found["count"].numpy().tolist() == [3, MISSING["int64"]]
    assert found["kind"].numpy().tolist() == [b"oak", b""]


def test_columns_become_two_matrices() -> None:
    """Named by their kinds; other outputs of the graph are ignored."""
    found = TABLE.decode(parsed({"size": 1.5, "count": 3, "kind": b"oak"}, {"size": 0.5, "count": -1}))

    assert {name: (value.dtype, value.numpy().tolist()) for name, value in found.items()} == {
        "numbers": (tf.float32, [[3.0, 6.0], [1.0, -2.0]]),
        "categories": (tf.int64, [[3], [0]]),
    }


def test_inputs_are_as_wide_as_the_fitted_matrices() -> None:
    """The encoder finds them by these names."""
    declared = features.keras_inputs({"table": TABLE})

    assert {name: (given.shape, given.dtype) for name, given in declared.items()} == {
        "table_numbers": ((None, 2), "float32"),
        "table_categories": ((None, 1), "int64"),
    }


def test_a_table_without_categories_has_none() -> None:
    """And no input for them."""
    numbers = TableFeature((SIZE, COUNT), FITTED)

    assert features.keras_inputs({"table": numbers}).keys() == {"table_numbers"}


def test_all_columns_are_one_feature() -> None:
    """Without columns there is no feature."""
    data: Any = None

    assert from_columns([SIZE, KIND], FITTED, Input(), data) == {"table": TableFeature((SIZE, KIND), FITTED)}
    assert from_columns([], FITTED, Input(), data) == {}
