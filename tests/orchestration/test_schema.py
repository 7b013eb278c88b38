"""Which schema the data must satisfy: the user's, the task's, or an inferred one that the user edits."""

import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.errors import SettingsError
from components.ingest.survey import survey
from components.records import roles
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

    assert (found.file, found.is_new, before) == (config.state / "schema.pbtxt", True, False)
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
    edited = (config.state / "schema.pbtxt").read_text() + "# mine\n"
    (config.state / "schema.pbtxt").write_text(edited)
    listed(tmp_path, "path,kind,width,height")

    assert find(config) == schema.Curated(config.state / "schema.pbtxt", edited.encode())


def table_config(home: Path, *flags: str, **places: str) -> RunConfig:
    """Returns the configuration of a table with a class, a code, a number and a note."""
    rows = "".join(f"{kind},{code},1.5,some note {kind}\n" for kind in "xy" for code in "ab")
    (home / "rows.csv").write_text(f"kind,code,width,note\n{rows}")
    return run_config.make("tabular", data=str(home / "rows.csv"), root=str(home / "root"), flags=flags, **places)


def published(config: RunConfig) -> Path:
    """Infers and publishes the schema; returns its file."""
    config.notes.mkdir(parents=True, exist_ok=True)
    found = find(config)
    assert schema.publish(found)
    return found.file


def roles_of(config: RunConfig, found: schema.Curated) -> dict[str, str]:
    """Returns the role of each column."""
    layout = roles.read(text_format.Parse(found.content, schema_pb2.Schema()), config.task.label)
    return {column.name: column.role for column in layout.columns}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["ingest.label=kind", "ingest.unused=width"], {"code": "category", "width": "unused", "note": "category"}),
        (["ingest.label=kind", "ingest.text=note"], {"code": "category", "width": "number", "note": "text"}),
        (["ingest.label=kind", "ingest.columns.width=text"], dict.fromkeys(["code", "width", "note"], "category")),
        (["ingest.label=code"], {"kind": "category", "width": "number", "note": "category"}),
    ],
    ids=["unused", "text", "columns", "label"],
)
def test_a_changed_setting_infers_the_schema_again(tmp_path: Path, flags: list[str], expected: dict[str, str]) -> None:
    """A17: if the user has not edited it; the second run with the same settings keeps it."""
    published(table_config(tmp_path, "ingest.label=kind"))
    config = table_config(tmp_path, *flags)
    found = find(config)

    assert (found.is_new, found.is_again, roles_of(config, found)) == (True, True, expected)
    schema.publish(found)
    assert find(config) == schema.Curated(found.file, found.content)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["ingest.label=kind", "ingest.unused=width"], "feature 'width' is used as number, expected unused"),
        (["ingest.label=code"], "feature 'code' is in the schema, but the column is now the label: remove the feature"),
        (["ingest.label=width"], "feature 'label' is a class, expected a quantity"),
    ],
)
def test_an_edited_schema_that_contradicts_the_settings_stops(tmp_path: Path, flags: list[str], reason: str) -> None:
    """A17: the message names the file and what to edit."""
    file = published(table_config(tmp_path, "ingest.label=kind"))
    file.write_text("# mine\n" + file.read_text())

    with pytest.raises(SettingsError, match=re.escape(reason)) as stop:
        find(table_config(tmp_path, *flags))
    assert str(stop.value).startswith(f"schema {file}: edited, and it contradicts the settings of ingest: ")


def test_an_edited_schema_that_agrees_with_changed_settings_is_kept(tmp_path: Path) -> None:
    """A17: the user has made the change in the file too."""
    file = published(table_config(tmp_path, "ingest.label=kind"))
    file.write_text(file.read_text().replace('name: "width"', 'name: "width"\n  annotation { tag: "unused" }'))

    assert find(table_config(tmp_path, "ingest.label=kind", "ingest.unused=width")).is_new is False


def test_a_schema_of_the_user_that_contradicts_the_settings_stops(tmp_path: Path) -> None:
    """A17: --schema does not make ingest.unused silent."""
    mine = published(table_config(tmp_path, "ingest.label=kind")).rename(tmp_path / "mine.pbtxt")

    with pytest.raises(SettingsError, match=f"^schema {mine}: "):
        find(table_config(tmp_path, "ingest.label=kind", "ingest.unused=width", schema=str(mine)))


def test_a_setting_that_contradicts_the_tasks_schema_infers_one(tmp_path: Path) -> None:
    """A17: data with the columns of the sample, one of them unused."""
    shipped = text_format.Parse((HOME / "schemas" / "tabular.pbtxt").read_bytes(), schema_pb2.Schema()).feature
    values = {schema_pb2.FLOAT: "1.5", schema_pb2.INT: "3", schema_pb2.BYTES: "x"}
    rows = [[each.name for each in shipped if each.name != "id"], [values[e.type] for e in shipped if e.name != "id"]]
    (tmp_path / "rows.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    config = run_config.make("tabular", data=str(tmp_path / "rows.csv"), root=str(tmp_path / "root"))
    other = run_config.make("tabular", data=config.data, root=str(config.state), flags=["ingest.unused=mean_area"])
    found = find(other)

    assert find(config).file == HOME / "schemas" / "tabular.pbtxt"
    assert (found.file, roles_of(other, found)["mean_area"]) == (config.state / "schema.pbtxt", "unused")


@pytest.mark.parametrize(
    ("label", "wrong", "right"), [("kind", "min_r2", "min_accuracy"), ("width", "min_accuracy", "min_r2")]
)
def test_a_threshold_of_the_other_kind_of_label_is_rejected(tmp_path: Path, label: str, wrong: str, right: str) -> None:
    """C6: before the run, because the Evaluator would ignore it."""
    config = table_config(tmp_path, f"ingest.label={label}", f"evaluate.{wrong}=0.5")

    with pytest.raises(SettingsError, match=f"^setting evaluate.{wrong}: the label is a .*; set evaluate.{right}"):
        find(config)


def test_an_unknown_column_in_slices_is_rejected(tmp_path: Path) -> None:
    """C6: before the run, with the nearest name."""
    config = table_config(tmp_path, "ingest.label=kind", "evaluate.slices=code,widht")

    with pytest.raises(SettingsError, match=r"^setting evaluate.slices: no column 'widht' .*; did you mean 'width'\?$"):
        find(config)


def test_a_tasks_default_slices_may_be_missing_in_the_data(tmp_path: Path) -> None:
    """They name columns of the sample data; the user's own names must exist."""
    data = listed(tmp_path, "path,kind,note")
    flags = ["ingest.label=kind", "ingest.columns.note=text"]
    config = run_config.make("multimodal", data=str(data), root=str(tmp_path / "root"), flags=flags)

    assert (config.settings.evaluate.slices, find(config).is_new) == (("question",), True)


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
