"""Which schema the data is held against: the user's own, the shipped one, or one to be curated.

--schema FILE ────────────────────────────────► that file
the data has the columns of the shipped one ──► the shipped one
else ─────────────────────────────────────────► <root>/schema.pbtxt: inferred by the first run, the user's from then on
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


@dataclass(frozen=True)
class Curated:
    """A schema and where it is kept."""

    file: Path
    content: bytes
    is_new: bool = False  # inferred just now: the file is not there yet


def find(config: RunConfig, found: Survey) -> Curated:
    """Returns the schema that applies to the data."""
    if config.schema:
        return _read(Path(config.schema))
    shipped = _read(HOME / config.task.schema)
    # Files of class folders always become the same columns.
    if found.table is None or _columns(shipped.content) == _columns(_inferred(found.table)):
        return shipped
    own = config.root / "schema.pbtxt"
    return _read(own) if own.exists() else Curated(own, _inferred(found.table), is_new=True)


def current(config: RunConfig) -> bytes:
    """Returns the schema that would be in force now, for who compiles a pipeline before it is run."""
    cache = HashCache(config.hash_cache, read_only=True)
    paths.prepare(config.data, config.beam_args)
    return in_force(config, find(config, cached.take(config.data, config.settings.ingest, cache, config.needs)))


def in_force(config: RunConfig, schema: Curated) -> bytes:
    """Returns the schema as nodes read it: with what stands for a missing value."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.records import roles

    told = text_format.Parse(schema.content, schema_pb2.Schema())
    if config.settings.extract.model and config.settings.extract.where == "beam":
        told = _extracted(config, told)
    return text_format.MessageToString(roles.with_defaults(told, config.task.label)).encode()


def bring_into_force(config: RunConfig, schema: Curated) -> None:
    """Stores the schema where the pipeline takes it from, and where the user finds it if it is new."""
    if schema.is_new:
        durable.write_bytes(schema.file, schema.content)
    durable.write_bytes(config.schema_in_force, in_force(config, schema))


def _read(file: Path) -> Curated:
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    try:
        content = file.read_bytes()
        text_format.Parse(content, schema_pb2.Schema())
    except OSError as error:
        raise SettingsError(f"schema {file}: {error.strerror}") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise SettingsError(f"schema {file}: not a TensorFlow Metadata schema as text: {error}") from None
    return Curated(file, content)


def _extracted(config: RunConfig, schema: "schema_pb2.Schema") -> "schema_pb2.Schema":
    """Returns the schema of records with a vector in the place of the image."""
    from components.pretrained import extractor
    from components.records import roles

    cache = HashCache(config.hash_cache, read_only=True)
    width = extractor.width(extractor.find(config.settings.extract, cache), config.notes)
    return roles.with_embeddings(schema, config.task.label, width)


def _columns(schema: bytes) -> set[tuple[str, int, str]]:
    """Returns what tells one set of columns from another: names, types, and dtype and shape of tensors."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.records.schema import tensor_of

    features = text_format.Parse(schema, schema_pb2.Schema()).feature
    return {(feature.name, feature.type, str(tensor_of(feature))) for feature in features}


def _inferred(table: Table) -> bytes:
    from components.ingest.survey.schema import as_text

    return as_text(table.schema, table.label, table.images)
