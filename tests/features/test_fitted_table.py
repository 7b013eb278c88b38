"""Fitted columns as a feature: gaps are where the record lacks a value, matrices are as wide as what was fitted."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from components import features
from components.features.fitted_table import FittedTable, from_columns
from components.records.roles import MISSING, Column
from components.settings.input import Input

SIZE, COUNT, KIND = (
    Column("size", "number", "float32"), Column("count", "number", "int64"), Column("kind", "category", "string"),
)  # fmt: skip


class Doubled:
    """A fitted graph: numbers twice, and the length of the kind."""

    def apply(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the columns that are there make."""
        numbers = [tf.cast(columns[name], tf.float32) for name in ("size", "count") if name in columns]
        found = {"table_numbers": 2 * tf.stack(numbers, axis=1)} if numbers else {}
        if "kind" in columns:
            found["table_categories"] = tf.cast(tf.strings.length(columns["kind"]), tf.int64)[:, tf.newaxis]
        return found


TABLE = FittedTable((SIZE, COUNT, KIND), Doubled())


def parsed(*records: dict[str, Any]) -> Any:
    """Returns the columns of records as a reader parses them."""
    return tf.io.parse_example([example(**each) for each in records], TABLE.spec())


def example(**values: Any) -> bytes:
    """Returns a record."""
    made = tf.train.Example()
    for name, value in values.items():
        feature = made.features.feature[name]
        kinds = {float: feature.float_list, int: feature.int64_list, bytes: feature.bytes_list}
        kinds[type(value)].value.append(value)
    return bytes(made.SerializeToString())


def test_a_gap_is_what_the_schema_says_it_is() -> None:
    """Training, evaluation and serving parse records by this."""
    found = parsed({"size": 1.5, "count": 3, "kind": b"oak"}, {})

    np.testing.assert_array_equal(found["size"], np.array([1.5, np.nan], np.float32))
    assert found["count"].numpy().tolist() == [3, MISSING["int64"]]
    assert found["kind"].numpy().tolist() == [b"oak", b""]


def test_two_matrices_come_out() -> None:
    """By the names of their kinds; other things of the graph are not looked at."""
    found = TABLE.decode(parsed({"size": 1.5, "count": 3, "kind": b"oak"}, {"size": 0.5, "count": -1}))

    assert {name: (value.dtype, value.numpy().tolist()) for name, value in found.items()} == {
        "numbers": (tf.float32, [[3.0, 6.0], [1.0, -2.0]]),
        "categories": (tf.int64, [[3], [0]]),
    }


def test_inputs_are_as_wide_as_what_was_fitted() -> None:
    """And are found by the encoder under these names."""
    declared = features.keras_inputs({"table": TABLE})

    assert {name: (given.shape, given.dtype) for name, given in declared.items()} == {
        "table_numbers": ((None, 2), "float32"),
        "table_categories": ((None, 1), "int64"),
    }


def test_a_table_without_categories_has_none() -> None:
    """Nor an input for them."""
    numbers = FittedTable((SIZE, COUNT), Doubled())

    assert features.keras_inputs({"table": numbers}).keys() == {"table_numbers"}


def test_all_columns_are_one_feature() -> None:
    """And no columns are none."""
    fitted, data = Doubled(), None

    assert from_columns([SIZE, KIND], fitted, Input(), data) == {"table": FittedTable((SIZE, KIND), fitted)}  # type: ignore[arg-type]
    assert from_columns([], fitted, Input(), data) == {}  # type: ignore[arg-type]
