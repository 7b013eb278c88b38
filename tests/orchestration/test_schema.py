"""Which schema the data must satisfy: the user's, the task's, or an inferred one that the user edits."""

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
    """Surveys the data, and returns the schema for it."""
    found = survey.take(config.data, config.settings.ingest, HashCache(None), config.needs)
    return schema.find(config, found)


def listed(home: Path, header: str = "path,kind") -> Path:
    """Writes a table of two images; further columns are numbers."""
    cells = "".join(f",{number}" for number in range(header.count(",") - 1))
    (home / "list.csv").write_text(f"{header}\na.png,x{cells}\nb.png,y{cells}\n")
    for name in ("a.png", "b.png"):
        (home / name).write_bytes(b"\x89PNG\r\n\x1a\n")
    return home / "list.csv"


def config_of(data: Path, home: Path, **places: str) -> RunConfig:
    """Returns the configuration of an image pipeline."""
    return run_config.make("image", data=str(data), root=str(home / "root"), flags=["ingest.label=kind"], **places)


def test_data_with_the_same_columns_uses_the_tasks_schema(tmp_path: Path) -> None:
    """A table of images and classes has the same columns as class folders."""
    found = find(config_of(listed(tmp_path), tmp_path))

    assert (found.file, found.is_new) == (HOME / "schemas" / "image.pbtxt", False)


def test_a_schema_is_inferred_for_other_columns(tmp_path: Path) -> None:
    """The Schema node reads it with defaults; when that has finished, it is written where the user edits it."""
    config = config_of(listed(tmp_path, "path,kind,width,height"), tmp_path)
    found = find(config)
    config.notes.mkdir(parents=True)
    schema.write_input(config, found)
    before = found.file.exists()

    assert (found.file, found.is_new, before) == (config.root / "schema.pbtxt", True, False)
    assert schema.publish(found)
    assert found.file.read_bytes() == found.content
    assert config.schema_input.read_bytes() == schema.in_force(config, found)
    assert b'name: "width"' in found.content


def test_defaults_of_missing_values_are_in_force_but_not_in_the_file(tmp_path: Path) -> None:
    """Every node reads the same default for a missing value."""
    config = config_of(listed(tmp_path, "path,kind,width"), tmp_path)
    found = find(config)
    group = text_format.Parse(schema.in_force(config, found), schema_pb2.Schema()).tensor_representation_group[""]

    assert b"default_value" not in found.content
    assert group.tensor_representation["width"].dense_tensor.default_value.int_value == MISSING["int64"]


def test_a_comment_does_not_change_the_schema_in_force(tmp_path: Path) -> None:
    """So no node is due."""
    config = config_of(listed(tmp_path), tmp_path)
    found = find(config)
    commented = schema.Curated(found.file, found.content + b"# as of today\n")

    assert schema.in_force(config, commented) == schema.in_force(config, found)


def test_an_edited_schema_is_kept(tmp_path: Path) -> None:
    """Even if the data changes."""
    config = config_of(listed(tmp_path, "path,kind,width"), tmp_path)
    config.notes.mkdir(parents=True)
    schema.publish(find(config))
    edited = (config.root / "schema.pbtxt").read_text() + "# mine\n"
    (config.root / "schema.pbtxt").write_text(edited)
    listed(tmp_path, "path,kind,width,height")

    assert find(config) == schema.Curated(config.root / "schema.pbtxt", edited.encode())


def test_the_user_can_name_a_schema(tmp_path: Path) -> None:
    """It wins over all others."""
    (tmp_path / "mine.pbtxt").write_text('feature { name: "image" }')
    found = find(config_of(listed(tmp_path), tmp_path, schema=str(tmp_path / "mine.pbtxt")))

    assert found.content == b'feature { name: "image" }'


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b"what?", "not a TensorFlow Metadata schema"), (b"\xff", "not a Ten")],
)
def test_an_invalid_schema_is_rejected(tmp_path: Path, content: bytes | None, message: str) -> None:
    """The message names the file."""
    if content is not None:
        (tmp_path / "mine.pbtxt").write_bytes(content)

    with pytest.raises(SettingsError, match=f"mine.pbtxt: {message}"):
        find(config_of(listed(tmp_path), tmp_path, schema=str(tmp_path / "mine.pbtxt")))
