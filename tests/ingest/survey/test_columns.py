"""The label is found by its name, types can be set right, and a person is shown what was made of it."""

import pyarrow as pa
import pytest

from components.errors import SettingsError
from components.ingest.sources.set_types import SET_BY_USER
from components.ingest.survey import columns as infer

TENSOR = pa.field("pixels", pa.binary(), metadata={"dtype": "<f4", "shape": "28,28"})


def columns(*names: str) -> pa.Schema:
    """Returns columns of text."""
    return pa.schema([(name, pa.string()) for name in names])


class TestLabel:
    """Which column is the label."""

    @pytest.mark.parametrize(
        ("names", "found"),
        [
            (["text", "label"], "label"),
            (["Class", "text"], "Class"),
            (["x", "Y"], "Y"),
            (["category", "label", "y"], "label"),
            (["image/class/text", "image/class/label"], "image/class/label"),
            (["meta.target", "text"], "meta.target"),
            (["labelled", "classes_taken"], ""),
        ],
    )
    def test_one_that_is_called_so_is_the_label(self, names: list[str], found: str) -> None:
        """In any case, the most usual name first, also at the end of a path."""
        assert infer.label_column(columns(*names), "") == found

    def test_the_one_that_is_asked_for_is_the_label(self) -> None:
        """Whatever else is called so."""
        assert infer.label_column(columns("label", "species"), "species") == "species"

    def test_a_missing_one_is_told_with_the_nearest_name(self) -> None:
        """A misspelt setting is mended at once."""
        with pytest.raises(SettingsError, match=r"setting ingest.label: no column 'klass' .* did you mean 'class'\?"):
            infer.label_column(columns("text", "class"), "klass")

    def test_lists_and_tensors_are_no_labels(self) -> None:
        """Whatever they are called."""
        schema = pa.schema([pa.field("y", pa.binary(), metadata=TENSOR.metadata), ("labels", pa.list_(pa.int64()))])

        assert infer.label_column(schema, "") == ""


class TestTypes:
    """Types that the user has set."""

    def test_a_type_is_set(self) -> None:
        """The values of a list have it, too; sources are told who wanted it."""
        schema = pa.schema([("code", pa.int64()), ("prices", pa.list_(pa.int64())), ("name", pa.string())])
        told = {SET_BY_USER: b""}

        assert infer.with_types(schema, {"code": "text", "prices": "float"}).equals(
            pa.schema(
                [
                    pa.field("code", pa.string(), metadata=told),
                    pa.field("prices", pa.list_(pa.float64()), metadata=told),
                    ("name", pa.string()),
                ]
            ),
            check_metadata=True,
        )

    def test_an_unknown_column_is_told_with_the_nearest_name(self) -> None:
        """So that a misspelt one is not left as it was in silence."""
        with pytest.raises(SettingsError, match=r"setting ingest.columns: no column 'cod' .* did you mean 'code'\?"):
            infer.with_types(columns("code"), {"cod": "text"})

    def test_a_tensor_has_the_type_of_its_array(self) -> None:
        """Its bytes cannot be read as anything else."""
        with pytest.raises(SettingsError, match=r"'pixels' is a tensor of float32 28 x 28, expected bytes"):
            infer.with_types(pa.schema([TENSOR]), {"pixels": "int"})


class TestRecords:
    """What the columns are in records."""

    def test_every_record_has_an_id(self) -> None:
        """Behind the columns of the rows."""
        assert infer.record_schema(columns("text")) == pa.schema([("text", pa.string()), ("id", pa.int64())])

    @pytest.mark.parametrize(
        ("names", "own"),
        [(["id"], "record_id"), (["record_id"], "id"), (["id", "record_id", "record_id_2"], "record_id_3")],
    )
    def test_a_column_of_the_user_is_never_replaced(self, names: list[str], own: str) -> None:
        """Ours takes the next free name."""
        assert infer.record_schema(columns(*names)).names == [*names, own]

    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            (["path", "label"], ["image", "label", "id"]),
            (["label", "image"], ["label", "image", "id"]),
            (["path", "image"], ["path", "image", "id"]),
        ],
    )
    def test_images_stand_in_the_place_of_their_paths(self, names: list[str], expected: list[str]) -> None:
        """They are called `image`, if no other column is."""
        images = "image" if names == ["label", "image"] else "path"

        assert infer.record_schema(columns(*names), images).names == expected


def test_columns_are_shown_to_people() -> None:
    """In the words of the settings; dtype and shape of tensors, and what a column is for, are notes."""
    schema = pa.schema(
        [
            ("age", pa.int64()),
            ("share", pa.float32()),
            ("words", pa.list_(pa.string())),
            ("ok", pa.bool_()),
            ("raw", pa.binary()),
            TENSOR,
            ("file", pa.string()),
            ("class", pa.string()),
        ]
    )

    assert infer.describe(schema, "class", "file") == [
        ("age", "int", ""),
        ("share", "float", ""),
        ("words", "list of text", ""),
        ("ok", "bool", ""),
        ("raw", "bytes", ""),
        ("pixels", "tensor", "float32 28 x 28"),
        ("file", "text", "image paths"),
        ("class", "text", "label"),
    ]
