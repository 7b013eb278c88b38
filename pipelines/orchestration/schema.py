"""Which schema the data must satisfy: the user's own, the shipped one, or an inferred one.

--schema FILE ──────────────────────────────────────► that file
the data has the columns of the task's schema ──────► the task's schema
else ───────────────────────────────────────────────► <root>/schema.pbtxt: inferred by the first run, then the user's

A schema that contradicts the settings is inferred again, or stops the run if it is the user's (`schema_settings.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import SettingsError
from components.ingest.survey import cached
from components.ingest.survey.survey import Survey, Table
from components.storage import durable, paths
from components.storage.hashing import HashCache
from components.storage.location import Location
from pipelines.config import HOME, RunConfig
from pipelines.orchestration import schema_settings

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

_FILE = "schema.pbtxt"


@dataclass(frozen=True)
class Curated:
    """A schema and its file."""

    file: Path
    content: bytes
    is_new: bool = False  # inferred now: the file is not written yet
    is_again: bool = False  # inferred now, because settings have changed


def find(config: RunConfig, found: Survey) -> Curated:
    """Returns the schema that applies to the data; raises SettingsError if the settings contradict it."""
    schema = _find(config, found.table)
    schema_settings.check_evaluate(config, _parsed(schema.content))
    return schema


def _find(config: RunConfig, table: Table | None) -> Curated:
    schema = _read(Path(config.schema) if config.schema else HOME / config.task.schema)
    if table is None:  # class folders always have the same columns
        return schema
    inferred = _inferred(table)
    conflicts = partial(schema_settings.conflicts, config, table, inferred=_parsed(inferred))
    found = conflicts(_parsed(schema.content))
    if config.schema:
        schema_settings.require_no_conflicts(schema.file, found)
    if config.schema or (_columns(schema.content) == _columns(inferred) and not found):
        return schema
    return _own_schema(config, inferred, conflicts)


def _own_schema(config: RunConfig, inferred: bytes, conflicts: "Callable[[schema_pb2.Schema], list[str]]") -> Curated:
    """Returns the schema in the root: as it is, or inferred now."""
    new = Curated(own(config), schema_settings.marked(config, inferred), is_new=True)
    if not new.file.exists():
        return new
    schema = _read(new.file)
    if schema_settings.has_same_settings(config, schema.content):
        return schema
    if not schema_settings.is_edited(schema.content):
        return replace(new, is_again=True)
    schema_settings.require_no_conflicts(schema.file, conflicts(_parsed(schema.content)))
    return schema


def own(config: RunConfig) -> Path:
    """Returns the file of an inferred schema, which the user may edit."""
    return config.state / _FILE


def of_artifact(config: RunConfig, folder: Location) -> tuple[bytes, Path]:
    """Returns the schema that the Schema node wrote, and the file that the user edits to change it."""
    content = (folder / _FILE).read_bytes()
    schema_settings.check_evaluate(config, _parsed(content))
    shipped = HOME / config.task.schema
    return content, Path(config.schema) if config.schema else own(config) if own(config).exists() else shipped


def current(config: RunConfig) -> tuple[bytes, Path]:
    """Returns the schema that a run would use now, and its file; for compiling a pipeline before it runs."""
    cache = HashCache(config.hash_cache, read_only=True)
    paths.prepare(config.data, config.beam_args)
    found = find(config, cached.take(config.data, config.settings.ingest, cache, config.needs))
    return in_force(config, found), found.file


def in_force(config: RunConfig, schema: Curated) -> bytes:
    """Returns the schema as nodes read it: with a default for every value that may be missing."""
    from google.protobuf import text_format

    from components.records import roles

    parsed = _parsed(schema.content)
    if config.settings.extract.model and config.settings.extract.where == "beam":
        parsed = _extracted(config, parsed)
    return text_format.MessageToString(roles.with_defaults(parsed, config.task.label)).encode()


def write_input(config: RunConfig, schema: Curated) -> None:
    """Writes the schema where the Schema node reads it; nothing else reads it there, because the run may be killed."""
    durable.write_bytes(config.schema_input, in_force(config, schema))


def publish(schema: Curated) -> bool:
    """Writes an inferred schema where the user edits it, once the Schema node has finished; returns whether it did."""
    if schema.is_new:
        durable.write_bytes(schema.file, schema.content)
    return schema.is_new


def _read(file: Path) -> Curated:
    from google.protobuf import text_format

    try:
        content = file.read_bytes()
        _parsed(content)
    except OSError as error:
        raise SettingsError(f"schema {file}: {error.strerror}") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise SettingsError(f"schema {file}: not a TensorFlow Metadata schema in text format: {error}") from None
    return Curated(file, content)


def _extracted(config: RunConfig, schema: "schema_pb2.Schema") -> "schema_pb2.Schema":
    """Returns the schema of records with an embedding in place of the image."""
    from components.pretrained.find import find_model
    from components.pretrained.width import embedding_width
    from components.records import roles

    cache = HashCache(config.hash_cache, read_only=True)
    width = embedding_width(find_model(config.settings.extract, cache), config.notes)
    return roles.with_embeddings(schema, config.task.label, width)


def _columns(schema: bytes) -> set[tuple[str, int, str]]:
    """Returns what identifies a set of columns: names, types, and dtype and shape of tensors."""
    from components.records.schema import tensor_of

    return {(feature.name, feature.type, str(tensor_of(feature))) for feature in _parsed(schema).feature}


def _parsed(schema: bytes) -> "schema_pb2.Schema":
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    return text_format.Parse(schema, schema_pb2.Schema())


def _inferred(table: Table) -> bytes:
    from components.ingest.survey.schema import as_text

    return as_text(table.schema, table.label, table.images)
