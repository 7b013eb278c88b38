"""The schema that data is held against: the user's, the shipped one, or one that is inferred and then the user's."""

from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.errors import SettingsError
from components.ingest.survey import survey
from components.records.roles import MISSING
from components.storage.hashing import HashCache
from pipelines import config as run_config
from pipelines.config import HOME, RunConfig
from pipelines.orchestration import schema


def find(config: RunConfig) -> schema.Curated:
    """Looks at the data, and returns the schema for it."""
    found = survey.take(config.data, config.settings.ingest, HashCache(None), config.needs)
    return schema.find(config, found)


def listed(home: Path, header: str = "path,kind") -> Path:
    """Writes a table of two images; more columns hold numbers."""
    cells = "".join(f",{number}" for number in range(header.count(",") - 1))
    (home / "list.csv").write_text(f"{header}\na.png,x{cells}\nb.png,y{cells}\n")
    for name in ("a.png", "b.png"):
        (home / name).write_bytes(b"\x89PNG\r\n\x1a\n")
    return home / "list.csv"


def config_of(data: Path, home: Path, **places: str) -> RunConfig:
    """Returns the configuration of an image pipeline."""
    return run_config.make("image", data=str(data), root=str(home / "root"), flags=["ingest.label=kind"], **places)


def test_the_same_columns_take_the_shipped_schema(tmp_path: Path) -> None:
    """A table that lists images and classes gives the records that class folders do."""
    found = find(config_of(listed(tmp_path), tmp_path))

    assert (found.file, found.is_new) == (HOME / "schemas" / "image.pbtxt", False)


def test_other_columns_have_a_schema_inferred(tmp_path: Path) -> None:
    """It is put where the user finds it, and where the pipeline reads it."""
    config = config_of(listed(tmp_path, "path,kind,width,height"), tmp_path)
    found = find(config)
    config.notes.mkdir(parents=True)
    schema.bring_into_force(config, found)

    assert (found.file, found.is_new) == (config.root / "schema.pbtxt", True)
    assert found.file.read_bytes() == found.content
    assert config.schema_in_force.read_bytes() == schema.in_force(config, found)
    assert b'name: "width"' in found.content


def test_what_stands_for_a_gap_is_in_force_but_not_in_the_file(tmp_path: Path) -> None:
    """The user curates columns; every node reads the same in place of what a record lacks."""
    config = config_of(listed(tmp_path, "path,kind,width"), tmp_path)
    found = find(config)
    told = text_format.Parse(schema.in_force(config, found), schema_pb2.Schema()).tensor_representation_group[""]

    assert b"default_value" not in found.content
    assert told.tensor_representation["width"].dense_tensor.default_value.int_value == MISSING["int64"]


def test_a_comment_changes_nothing_that_is_in_force(tmp_path: Path) -> None:
    """So it makes no node due."""
    config = config_of(listed(tmp_path), tmp_path)
    found = find(config)
    commented = schema.Curated(found.file, found.content + b"# as of today\n")

    assert schema.in_force(config, commented) == schema.in_force(config, found)


def test_what_the_user_has_curated_stays(tmp_path: Path) -> None:
    """Also when the data changes: that is what a schema is for."""
    config = config_of(listed(tmp_path, "path,kind,width"), tmp_path)
    config.notes.mkdir(parents=True)
    schema.bring_into_force(config, find(config))
    edited = (config.root / "schema.pbtxt").read_text() + "# mine\n"
    (config.root / "schema.pbtxt").write_text(edited)
    listed(tmp_path, "path,kind,width,height")

    assert find(config) == schema.Curated(config.root / "schema.pbtxt", edited.encode())


def test_a_schema_can_be_named(tmp_path: Path) -> None:
    """It wins over all others."""
    (tmp_path / "mine.pbtxt").write_text('feature { name: "image" }')
    found = find(config_of(listed(tmp_path), tmp_path, schema=str(tmp_path / "mine.pbtxt")))

    assert found.content == b'feature { name: "image" }'


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"what?", "not a TensorFlow Metadata schema"), (b"\xff", "not a Ten")],
)
def test_a_schema_that_is_none_is_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    """With its name, before anything runs."""
    if content is not None:
        (tmp_path / "mine.pbtxt").write_bytes(content)

    with pytest.raises(SettingsError, match=f"mine.pbtxt: {said}"):
        find(config_of(listed(tmp_path), tmp_path, schema=str(tmp_path / "mine.pbtxt")))
