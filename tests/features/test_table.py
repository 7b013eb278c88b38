"""Columns of a record come together in a few tensors; where a record lacks one, its default stands."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components import features
from components.features.table import Column, Kind, TableFeature

SIZES = ["small", "large"]


def lookup(values: tf.Tensor) -> tf.Tensor:
    """Numbers two sizes, and all that is neither alike behind them."""
    table = tf.lookup.KeyValueTensorInitializer(SIZES, tf.range(2, dtype=tf.int64))
    return tf.lookup.StaticHashTable(table, 2).lookup(values)


def record(**values: float | str) -> bytes:
    """Returns a serialized record."""

    def feature(value: float | str) -> Any:
        if isinstance(value, str):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))

    wrapped = {name: feature(value) for name, value in values.items()}
    return tf.train.Example(features=tf.train.Features(feature=wrapped)).SerializeToString()


TABLE = TableFeature(
    (
        Column("size", "string", lookup=lookup),
        Column("weight", default=-1.5),
        Column("note", "string", default="none"),
        Column("count", "int64", default=7),
        Column("shirt", "string", default="large", lookup=lookup),
        Column("height"),
    )
)
FULL = record(size="small", weight=0.5, note="ripe", count=3, shirt="other", height=2.25)
EMPTY = record()


def decoded(*records: bytes) -> dict[str, Any]:
    """Returns what the table makes of records, as lists."""
    found = TABLE.decode(tf.io.parse_example(list(records), TABLE.spec()))
    return {kind: value.numpy().tolist() for kind, value in found.items()}


class TestDecode:
    """Records to tensors."""

    def test_columns_of_a_kind_stand_side_by_side(self) -> None:
        """In the order that they were given in, integers among floats."""
        assert decoded(FULL) == {"numbers": [[0.5, 3.0, 2.25]], "categories": [[0, 2]], "strings": [[b"ripe"]]}

    def test_defaults_stand_where_a_record_lacks_a_column(self) -> None:
        """Also for strings, and before they are looked up; without one it is nought, or no text."""
        assert decoded(EMPTY) == {"numbers": [[-1.5, 7.0, 0.0]], "categories": [[2, 1]], "strings": [[b"none"]]}

    def test_a_batch_mixes_full_and_empty_records(self) -> None:
        """Each has its own values."""
        assert decoded(EMPTY, FULL, EMPTY) == {
            "numbers": [[-1.5, 7.0, 0.0], [0.5, 3.0, 2.25], [-1.5, 7.0, 0.0]],
            "categories": [[2, 1], [0, 2], [2, 1]],
            "strings": [[b"none"], [b"ripe"], [b"none"]],
        }

    def test_a_string_without_a_default_is_empty(self) -> None:
        """Nought is no text."""
        table = TableFeature((Column("note", "string"),))

        assert table.decode(tf.io.parse_example([EMPTY], table.spec()))["strings"].numpy().tolist() == [[b""]]

    def test_tf_data_gives_the_tensors_of_eager_calls(self) -> None:
        """With widths and dtypes that are known before a record is."""
        data = tf.data.Dataset.from_tensor_slices([FULL, EMPTY]).batch(2)
        data = data.map(lambda batch: TABLE.decode(tf.io.parse_example(batch, TABLE.spec())))

        (inside,) = data.as_numpy_iterator()

        assert {kind: value.tolist() for kind, value in inside.items()} == decoded(FULL, EMPTY)
        assert data.element_spec == {
            "numbers": tf.TensorSpec([None, 3], tf.float32),
            "categories": tf.TensorSpec([None, 2], tf.int64),
            "strings": tf.TensorSpec([None, 1], tf.string),
        }

    def test_a_column_of_another_type_is_an_error(self) -> None:
        """A float where the table has an integer."""
        with pytest.raises(tf.errors.InvalidArgumentError, match="count"):
            decoded(record(count=0.5))

    def test_training_varies_nothing(self) -> None:
        """A row means what it says."""
        parsed = tf.io.parse_example([FULL], TABLE.spec())
        varied = TABLE.finish(TABLE.augmented(parsed, tf.constant([[1, 1]], tf.int64)))

        assert {kind: value.numpy().tolist() for kind, value in varied.items()} == decoded(FULL)


class TestColumn:
    """Which tensor a column goes to."""

    @pytest.mark.parametrize(
        ("column", "kind"),
        [
            (Column("x"), "numbers"),
            (Column("x", "int64"), "numbers"),
            (Column("x", "string"), "strings"),
            (Column("x", "string", lookup=lookup), "categories"),
        ],
        ids=["float32", "int64", "string", "string with a lookup"],
    )
    def test_type_and_lookup_decide(self, column: Column, kind: Kind) -> None:
        """Numbers are numbers, strings are categories if they are numbered."""
        assert column.kind == kind

    def test_a_table_of_one_kind_has_one_tensor(self) -> None:
        """None of no columns."""
        table = TableFeature((Column("x"), Column("y", "int64")))

        found = table.decode({"x": tf.constant([0.5]), "y": tf.constant([2], tf.int64)})

        assert list(found) == ["numbers"]
        np.testing.assert_array_equal(found["numbers"].numpy(), [[0.5, 2]])


class TestDeclared:
    """What others learn of the table without a record."""

    def test_the_model_receives_numbers_and_categories(self) -> None:
        """Strings are for loops of one's own; no model takes them."""
        declared = TABLE.keras_input("row")

        assert {kind: (value.shape, value.dtype, value.name) for kind, value in declared.items()} == {
            "numbers": ((None, 3), "float32", "row_numbers"),
            "categories": ((None, 2), "int64", "row_categories"),
        }

    def test_names_of_inputs_are_those_of_the_batch(self) -> None:
        """A model built on the declared inputs takes a batch as it comes."""
        table = TableFeature(TABLE.columns[:2])
        batch = features.inputs({"row": table}, tf.io.parse_example([FULL], features.spec({"row": table})))
        inputs = features.keras_inputs({"row": table})

        model = keras.Model(inputs, inputs["row_numbers"] + keras.ops.cast(inputs["row_categories"], "float32"))

        assert {name: value.numpy().tolist() for name, value in batch.items()} == {
            "row_numbers": [[0.5]],
            "row_categories": [[0]],
        }
        np.testing.assert_array_equal(model(batch).numpy(), [[0.5]])

    def test_memory_is_counted_by_columns(self) -> None:
        """Eight bytes a number, sixty-four a string."""
        assert (TABLE.decoded_bytes, TABLE.is_ragged, TABLE.is_costly) == (5 * 8 + 64, False, False)
