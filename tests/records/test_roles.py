"""What a column is for stands in the schema, and what stands for a gap is put there for every reader."""

import math
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.records import roles
from components.records.roles import MISSING, Column, Layout

ALWAYS, SOMETIMES, SEVERAL = "shape {}", "value_count { min: 1 max: 1 }", "value_count { min: 0 max: 9 }"


def schema(*features: str) -> Any:
    """Returns a schema of features as text, each with a name first."""
    text = "".join('feature {{ name: "{}" {} }}'.format(*feature.split(" ", 1)) for feature in features)
    return text_format.Parse(text, schema_pb2.Schema())


def tagged(*tags: str) -> str:
    """Returns the annotation of a feature."""
    return "annotation { " + " ".join(f'tag: "{tag}"' for tag in tags) + " }"


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        (f"type: BYTES {ALWAYS} image_domain {{}}", ("image", "string", ())),
        (f"type: BYTES {ALWAYS} image_domain {{}} {tagged('dtype:|u1', 'shape:8,8')}", ("tensor", "uint8", (8, 8))),
        (f"type: BYTES {ALWAYS} {tagged('dtype:<f8')}", ("tensor", "float64", ())),
        (f"type: BYTES {ALWAYS} {tagged('dtype:<f4', 'shape:3', 'unused')}", ("unused", "float32", (3,))),
        (f"type: BYTES {ALWAYS} {tagged('text')}", ("text", "string", ())),
        (f"type: BYTES {SOMETIMES} {tagged('text')}", ("text", "string", ())),
        (f"type: BYTES {SOMETIMES} {tagged('date')}", ("date", "string", ())),
        (f"type: BYTES {SOMETIMES}", ("category", "string", ())),
        (f"type: INT {SOMETIMES} {tagged('category')}", ("category", "int64", ())),
        (f"type: INT {SOMETIMES}", ("number", "int64", ())),
        (f"type: INT {SOMETIMES} bool_domain {{}}", ("number", "int64", ())),
        (f"type: FLOAT {SOMETIMES}", ("number", "float32", ())),
        (f"type: FLOAT {SOMETIMES} {tagged('category')}", ("number", "float32", ())),
        (f"type: FLOAT {ALWAYS} {tagged('unused')}", ("unused", "float32", ())),
        (f"type: BYTES {SOMETIMES} {tagged('text', 'unused')}", ("unused", "string", ())),
        (f"type: FLOAT {SEVERAL}", ("unused", "float32", ())),
        (f"type: BYTES {SEVERAL} {tagged('text')}", ("unused", "string", ())),
        ("type: FLOAT", ("unused", "float32", ())),
    ],
)
def test_a_column(feature: str, expected: tuple[str, str, tuple[int, ...]]) -> None:
    """By its type, its domain and its tags; of several values in a record no model sees any."""
    found = roles.read(schema(f"it {feature}", f"label type: BYTES {ALWAYS}"), "label")

    assert found.columns == (Column("it", *expected),)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "expected"), [("BYTES", "class"), ("INT", "class"), ("FLOAT", "quantity")])
def test_the_kind_of_a_label(kind: str, expected: str) -> None:
    """What has a fraction is a quantity."""
    assert roles.read(schema(f"y type: {kind} {ALWAYS}"), "y") == Layout("y", expected, ())  # type: ignore[arg-type]


@pytest.mark.parametrize("own", ["id", "record_id"])
def test_the_id_of_a_record_is_no_column(own: str) -> None:
    """Whatever it is called."""
    told = schema(f"{own} type: INT {ALWAYS} {tagged('record id')}", f"x type: FLOAT {ALWAYS}", "y type: BYTES")

    assert [column.name for column in roles.read(told, "y").columns] == ["x"]


def test_columns_of_some_roles_are_in_the_order_of_the_schema() -> None:
    """Whatever order the roles are asked for in."""
    columns = tuple(Column(name, role, "") for name, role in (("a", "number"), ("b", "text"), ("c", "date")))  # type: ignore[arg-type]

    assert Layout("y", "class", columns).of(["date", "number"]) == (columns[0], columns[2])


def test_a_column_travels_as_plain_values() -> None:
    """JSON would make a list of the shape."""
    column = Column("x", "tensor", "uint8", (8, 8))

    assert column.to_dict() == {"name": "x", "role": "tensor", "dtype": "uint8", "shape": [8, 8]}
    assert Column.from_dict(column.to_dict()) == column


class TestDefaults:
    """What every reader of the schema sees in the place of what a record lacks."""

    GAPPY = schema(
        f"number type: FLOAT {SOMETIMES}",
        f"count type: INT {SOMETIMES}",
        f"kind type: BYTES {SOMETIMES}",
        f"said type: BYTES {ALWAYS} {tagged('text')}",
        f"many type: FLOAT {SEVERAL}",
        f"image type: BYTES {ALWAYS} image_domain {{}}",
        f"label type: BYTES {ALWAYS}",
    )

    def told(self, given: Any) -> dict[str, Any]:
        """Returns how each column is read."""
        return dict(roles.with_defaults(given, "label").tensor_representation_group[""].tensor_representation)

    def test_a_gap_has_a_value_of_its_type(self) -> None:
        """NaN, the least integer, the empty text."""
        told = self.told(self.GAPPY)

        assert math.isnan(told["number"].dense_tensor.default_value.float_value)
        assert told["count"].dense_tensor.default_value.int_value == MISSING["int64"] == -(2**63)
        assert told["kind"].dense_tensor.default_value.bytes_value == b""
        assert told["kind"].dense_tensor.default_value.HasField("bytes_value")

    def test_what_is_always_there_has_none(self) -> None:
        """A record without it is an error, not a gap."""
        told = self.told(self.GAPPY)

        assert [name for name in ("said", "image", "label") if told[name].dense_tensor.HasField("default_value")] == []

    def test_every_column_is_told(self) -> None:
        """TFX takes all of them from there, or none; several values stay several."""
        told = self.told(self.GAPPY)

        assert told.keys() == {feature.name for feature in self.GAPPY.feature}
        assert told["many"].WhichOneof("kind") == "varlen_sparse_tensor"

    def test_a_schema_without_gaps_stays_as_it_is(self) -> None:
        """Nothing needs to be said."""
        given = schema(f"image type: BYTES {ALWAYS} image_domain {{}}", f"label type: BYTES {ALWAYS}")

        assert roles.with_defaults(given, "label") == given

    def test_what_the_user_has_said_stays(self) -> None:
        """A default of their own, say."""
        given = schema_pb2.Schema()
        given.CopyFrom(self.GAPPY)
        own = given.tensor_representation_group[""].tensor_representation["number"].dense_tensor
        own.column_name = "number"
        own.default_value.float_value = 7.0

        assert self.told(given)["number"].dense_tensor.default_value.float_value == 7.0

    def test_the_given_schema_is_not_changed(self) -> None:
        """It is the user's."""
        before = self.GAPPY.SerializeToString(deterministic=True)
        roles.with_defaults(self.GAPPY, "label")

        assert self.GAPPY.SerializeToString(deterministic=True) == before
