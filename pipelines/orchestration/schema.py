"""Which schema the data must satisfy: the user's own, the shipped one, or an inferred one.

--schema FILE ──────────────────────────────────────► that file
the data has the columns of the task's schema ──────► the task's schema
else ───────────────────────────────────────────────► <root>/schema.pbtxt: inferred by the first run, then the user's
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import SettingsError
from components.ingest.survey import cached
from components.ingest.survey.survey import Survey, Table
from components.storage import durable, paths
from components.storage.hashing import HashCache
from pipelines.config import HOME, RunConfig

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

_FILE = "schema.pbtxt"


@dataclass(frozen=True)
class Curated:
    """A schema and its file."""

    file: Path
    content: bytes
    is_new: bool = False  # inferred now: the file does not exist yet


def find(config: RunConfig, found: Survey) -> Curated:
    """Returns the schema that applies to the data."""
    if config.schema:
        return _read(Path(config.schema))
    shipped = _read(HOME / config.task.schema)
    # Class folders always have the same columns.
    if found.table is None or _columns(shipped.content) == _columns(_inferred(found.table)):
        return shipped
    file = own(config)
    return _read(file) if file.exists() else Curated(file, _inferred(found.table), is_new=True)


def own(config: RunConfig) -> Path:
    """Returns the file of an inferred schema, which the user may edit."""
    return config.root / _FILE


def of_artifact(folder: Path) -> bytes:
    """Returns the schema that the Schema node wrote."""
    return (folder / _FILE).read_bytes()


def current(config: RunConfig) -> bytes:
    """Returns the schema that a run would use now; for compiling a pipeline before it runs."""
    cache = HashCache(config.hash_cache, read_only=True)
    paths.prepare(config.data, config.beam_args)
    return in_force(config, find(config, cached.take(config.data, config.settings.ingest, cache, config.needs)))


def in_force(config: RunConfig, schema: Curated) -> bytes:
    """Returns the schema as nodes read it: with a default for every value that may be missing."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.records import roles

    parsed = text_format.Parse(schema.content, schema_pb2.Schema())
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
    from tensorflow_metadata.proto.v0 import schema_pb2

    try:
        content = file.read_bytes()
        text_format.Parse(content, schema_pb2.Schema())
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
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.records.schema import tensor_of

    features = text_format.Parse(schema, schema_pb2.Schema()).feature
    return {(feature.name, feature.type, str(tensor_of(feature))) for feature in features}


def _inferred(table: Table) -> bytes:
    from components.ingest.survey.schema import as_text

    return as_text(table.schema, table.label, table.images)
