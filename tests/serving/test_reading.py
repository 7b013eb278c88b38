"""What an exported model knows about raw data."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from components.ingest.survey import columns, schema
from components.pretrained.artifacts import READING
from components.records.manifest import Manifest, SourceTotals
from components.records.roles import Column
from components.serving import reading
from components.serving.reading import Argument, Reading

TABLE = columns.with_meanings(
    pa.schema(
        [
            ("age (years)", pa.int64()), ("member", pa.bool_()), ("photo", pa.string()), ("label", pa.string()),
            ("title_body", pa.string()), ("x", pa.binary()),
        ]
    ),
    ["title_body"],
)  # fmt: skip
COLUMNS = (
    Column("age (years)", "number", "int64"),
    Column("member", "number", "int64"),
    Column("title_body", "text", "string"),
    Column("x", "tensor", "float32", (2, 3)),
    Column("image", "image", "string"),
)
MANIFEST = Manifest(
    "", 0, SourceTotals(), (), {}, 0, {}, 0, (), label="label", label_source="kind", image_source="photo",
)  # fmt: skip
SETTINGS = {"text": ["title", "body"], "text_separator": " ", "header": "auto", "min_shards": 8}
ARGUMENTS = {
    "age__years_": "age (years)", "member": "member", "title_body": "title_body", "x": "x", "image": "image",
}  # fmt: skip


@pytest.fixture
def known() -> Reading:
    """Of a model that was trained on a table with images, joined texts and tensors."""
    records = schema.infer(TABLE, "label", "photo")
    return reading.of_training(ARGUMENTS, COLUMNS, MANIFEST, records, "class", ["a", "b"], SETTINGS)


def test_arguments_have_the_type_of_their_column_in_a_table(known: Reading) -> None:
    """A boolean is not an integer, and a tensor has its shape."""
    assert known.arguments == (
        Argument("age__years_", "age (years)", "number", "int"),
        Argument("member", "member", "number", "bool"),
        Argument("title_body", "title_body", "text", "text"),
        Argument("x", "x", "tensor", "bytes", "float32", (2, 3)),
        Argument("image", "image", "image", "bytes"),
    )


def test_columns_are_named_as_in_the_files(known: Reading) -> None:
    """The label, the paths of images and the parts of a joined text have their own names there; ids are not ours."""
    assert known.columns == ("age (years)", "member", "photo", "kind", "title", "body", "x")
    assert known.settings == {"text": ["title", "body"], "text_separator": " ", "header": "auto"}


def test_what_is_written_is_read(known: Reading, tmp_path: Path) -> None:
    """All of it."""
    known.write(tmp_path)

    assert reading.parse((tmp_path / READING).read_bytes()) == known


@pytest.mark.parametrize(
    "content", [b"[]", b'{"format": 2}', b'{"format": 1}', b"", b'{"format": 1, "arguments": [3]}']
)
def test_anything_else_is_an_error(content: bytes) -> None:
    """A ValueError, whatever it is."""
    with pytest.raises(ValueError, match=r"."):
        reading.parse(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arguments": []}, "it names no arguments"),
        ({"arguments": None}, "unexpected fields"),
        ({"arguments": ["x"]}, "unexpected fields"),
        (
            {"arguments": [{"name": "x", "column": "x", "role": "number", "kind": "object", "shape": []}]},
            "argument 'x'",
        ),
        ({"classes": []}, "kind 'class' with 0 classes"),
        ({"settings": []}, "its settings are no object"),
    ],
)
def test_what_no_export_writes(change: dict[str, object], message: str, known: Reading, tmp_path: Path) -> None:
    """It is an error, which says what is wrong."""
    known.write(tmp_path)
    stored = json.loads((tmp_path / READING).read_bytes())

    with pytest.raises(ValueError, match=message):
        reading.parse(json.dumps({**stored, **change}).encode())
