"""Whether a schema file agrees with the settings: those that it was inferred with, and those of this run.

inferred ─► ends with a mark: digests of the settings and of the text above
later    ─► same settings: the file applies, edited or not
            other settings, text not edited: inferred again
            other settings, text edited: must not contradict them
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from components.errors import SettingsError
from components.ingest.survey.survey import Table
from components.settings.names import nearest
from components.storage.hashing import digest_of
from pipelines.config import RunConfig

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

_SHAPING = tuple(f"ingest.{name}" for name in ("label", "columns", "unused", "text", "images", "names", "header"))
_MARK = re.compile(rb"^# settings (?P<settings>[0-9a-f]{16}), content (?P<content>[0-9a-f]{16})\b.*\n?", re.MULTILINE)


def marked(config: RunConfig, inferred: bytes) -> bytes:
    """Returns an inferred schema with the mark of the settings that shaped it."""
    note = "if it is not edited, the file is inferred again when these settings change"
    return inferred + f"# settings {_settings(config)}, content {_content(inferred)}: {note}\n".encode()


def has_same_settings(config: RunConfig, content: bytes) -> bool:
    """Whether a schema file was inferred with the settings of this run."""
    mark = _MARK.search(content)
    return mark is not None and mark["settings"].decode() == _settings(config)


def is_edited(content: bytes) -> bool:
    """Whether a schema file is not the text that was inferred."""
    mark = _MARK.search(content)
    return mark is None or mark["content"].decode() != _content(_MARK.sub(b"", content))


def conflicts(config: RunConfig, table: Table, schema: "schema_pb2.Schema", inferred: "schema_pb2.Schema") -> list[str]:
    """Returns what in a schema contradicts the settings, by comparing it with the one that they lead to."""
    from components.records import roles

    settings, label = config.settings.ingest, config.task.label
    old, new = roles.read(schema, label), roles.read(inferred, label)
    has, expected = ({column.name: column.role for column in layout.columns} for layout in (old, new))
    found = [
        f"feature {name!r} is in the schema, but the column is now the {renamed}: remove the feature"
        for name, renamed in table.names.items()
        if name in has and name not in expected
    ]
    found += [
        f'feature {name!r} is used as {has[name]}, expected {expected[name]}, such as by annotation {{ tag: "…" }}'
        for name in (*settings.unused, *settings.text, *settings.columns)
        if name in has and name in expected and has[name] != expected[name]
    ]
    if label in {feature.name for feature in schema.feature} and old.kind != new.kind:
        found.append(f"feature {label!r} is a {old.kind}, expected a {new.kind} (FLOAT: quantity, BYTES: class)")
    return found


def require_no_conflicts(file: Path, found: list[str]) -> None:
    """Raises SettingsError if a schema that the user has written or edited contradicts the settings."""
    if found:
        raise SettingsError(
            f"schema {file}: edited, and it contradicts the settings of ingest: {'; '.join(found)}. "
            "Edit the file, or change the settings; a schema.pbtxt in the root is inferred again if you delete it"
        )


def check_evaluate(config: RunConfig, schema: "schema_pb2.Schema") -> None:
    """Raises SettingsError for a metric threshold or a slice that the Evaluator would not use for this data."""
    from components.records import roles

    layout = roles.read(schema, config.task.label)
    columns = [column.name for column in layout.columns]
    # A task's default slices name columns of its sample data; other data may not have them.
    for name in config.settings.evaluate.slices:
        if name not in columns and name not in config.task.defaults.get("evaluate", {}).get("slices", ()):
            raise SettingsError(
                f"setting evaluate.slices: no column {name!r} in the data, label and id excepted; "
                f"{nearest(name, columns)}"
            )
    is_class = layout.kind == "class"
    wrong, right = ("min_r2", "min_accuracy") if is_class else ("min_accuracy", "min_r2")
    if getattr(config.settings.evaluate, wrong) is not None:
        kind, other = ("class", "a quantity") if is_class else ("quantity", "a class")
        column_type = "float" if is_class else "text"
        raise SettingsError(
            f"setting evaluate.{wrong}: the label is a {kind}, for which it has no meaning; set evaluate.{right}, "
            f"or make the label {other}: --set ingest.columns.LABEL={column_type}"
        )


def _settings(config: RunConfig) -> str:
    return digest_of([orjson.dumps(config.settings.select(_SHAPING), option=orjson.OPT_SORT_KEYS).decode()])[:16]


def _content(text: bytes) -> str:
    return digest_of([text.decode("utf-8", "replace")])[:16]
