"""The schema decides the role of each column, and the default of a missing value."""

import math
from typing import Any

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.errors import SettingsError
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
def test_the_role_of_a_column(feature: str, expected: tuple[str, str, tuple[int, ...]]) -> None:
    """By type, domain and tags; a column with several values per record is unused."""
    found = roles.read(schema(f"it {feature}", f"label type: BYTES {ALWAYS}"), "label")

    assert found.columns == (Column("it", *expected),)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "expected"), [("BYTES", "class"), ("INT", "class"), ("FLOAT", "quantity")])
def test_the_kind_of_a_label(kind: str, expected: str) -> None:
    """A FLOAT is a quantity."""
    assert roles.read(schema(f"y type: {kind} {ALWAYS}"), "y") == Layout("y", expected, ())  # type: ignore[arg-type]


@pytest.mark.parametrize("own", ["id", "record_id"])
def test_the_record_id_is_not_a_column(own: str) -> None:
    """Whatever its name."""
    given = schema(f"{own} type: INT {ALWAYS} {tagged('record id')}", f"x type: FLOAT {ALWAYS}", "y type: BYTES")

    assert [column.name for column in roles.read(given, "y").columns] == ["x"]


class TestEmbeddings:
    """Records with an embedding instead of the image."""

    def test_the_image_becomes_a_tensor(self) -> None:
        """With the width of the pretrained model, and the name of its image."""
        given = schema(f"photo type: BYTES {ALWAYS} image_domain {{}}", f"y type: BYTES {ALWAYS}")
        changed = roles.with_embeddings(given, "y", 64)

        assert roles.read(changed, "y").columns == (Column("photo_features", "tensor", "float32", (64,)),)
        assert (roles.embedded_image(changed), roles.embedded_image(given)) == ("photo", "")

    def test_one_image_is_expected(self) -> None:
        """The pretrained model has one input."""
        with pytest.raises(
            SettingsError, match=r"^extract\.model: records have 0 image columns, expected exactly one$"
        ):
            roles.with_embeddings(schema(f"y type: BYTES {ALWAYS}"), "y", 64)


def test_columns_are_selected_in_the_order_of_the_schema() -> None:
    """Not in the order of the roles."""
    columns = tuple(Column(name, role, "") for name, role in (("a", "number"), ("b", "text"), ("c", "date")))  # type: ignore[arg-type]

    assert Layout("y", "class", columns).of(["date", "number"]) == (columns[0], columns[2])


def test_a_column_is_rebuilt_from_plain_values() -> None:
    """The shape is a list, as JSON has no tuples."""
    column = Column("x", "tensor", "uint8", (8, 8))

    assert column.to_dict() == {"name": "x", "role": "tensor", "dtype": "uint8", "shape": [8, 8]}
    assert Column.from_dict(column.to_dict()) == column


class TestDefaults:
    """Default values of missing ones."""

    GAPPY = schema(
        f"number type: FLOAT {SOMETIMES}",
        f"count type: INT {SOMETIMES}",
        f"kind type: BYTES {SOMETIMES}",
        f"said type: BYTES {ALWAYS} {tagged('text')}",
        f"many type: FLOAT {SEVERAL}",
        f"image type: BYTES {ALWAYS} image_domain {{}}",
        f"label type: BYTES {ALWAYS}",
    )

    def representations(self, given: Any) -> dict[str, Any]:
        """Returns the tensor representation of each column."""
        return dict(roles.with_defaults(given, "label").tensor_representation_group[""].tensor_representation)

    def test_a_missing_value_has_a_default_of_its_type(self) -> None:
        """NaN, the smallest integer, the empty string."""
        found = self.representations(self.GAPPY)

        assert math.isnan(found["number"].dense_tensor.default_value.float_value)
        assert found["count"].dense_tensor.default_value.int_value == MISSING["int64"] == -(2**63)
        assert found["kind"].dense_tensor.default_value.bytes_value == b""
        assert found["kind"].dense_tensor.default_value.HasField("bytes_value")

    def test_a_required_column_has_no_default(self) -> None:
        """A record without it is an error."""
        found = self.representations(self.GAPPY)

        assert [name for name in ("said", "image", "label") if found[name].dense_tensor.HasField("default_value")] == []

    def test_every_column_has_a_representation(self) -> None:
        """TFX takes all columns from there, or none; several values are a sparse tensor."""
        found = self.representations(self.GAPPY)

        assert found.keys() == {feature.name for feature in self.GAPPY.feature}
        assert found["many"].WhichOneof("kind") == "varlen_sparse_tensor"

    def test_a_schema_without_optional_columns_is_not_changed(self) -> None:
        """It needs no representation."""
        given = schema(f"image type: BYTES {ALWAYS} image_domain {{}}", f"label type: BYTES {ALWAYS}")

        assert roles.with_defaults(given, "label") == given

    def test_a_representation_of_the_user_is_kept(self) -> None:
        """With its default value."""
        given = schema_pb2.Schema()
        given.CopyFrom(self.GAPPY)
        own = given.tensor_representation_group[""].tensor_representation["number"].dense_tensor
        own.column_name = "number"
        own.default_value.float_value = 7.0

        assert self.representations(given)["number"].dense_tensor.default_value.float_value == 7.0

    def test_the_given_schema_is_not_changed(self) -> None:
        """A copy is returned."""
        before = self.GAPPY.SerializeToString(deterministic=True)
        roles.with_defaults(self.GAPPY, "label")

        assert self.GAPPY.SerializeToString(deterministic=True) == before
