"""How raw data becomes the arguments of a served model: what the export knows and plain TensorFlow does not.

    training: settings of ingest, columns, label, classes ─► assets.extra/reading.json ─► penstock predict

A SavedModel has names and types of its arguments. It does not have the names of the columns in the user's files, which
of them are dates, booleans or paths of images, how texts were joined, or whether a CSV file has a header.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from components.pretrained.artifacts import READING
from components.records import roles, schema
from components.records.roles import Column, Kind
from components.storage import durable

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.records.manifest import Manifest

_FORMAT = 1
# Settings of ingest that decide what the model gets for a file or row. Limits are not among them: a model that somebody
# else has made must not raise them.
SETTINGS = (
    "header", "names", "label", "columns", "unused", "text", "text_separator", "images", "image_check", "store",
    "store_side", "store_quality",
)  # fmt: skip
_KINDS = ("int", "float", "bool", "text", "bytes")
_ROLES = ("image", "tensor", "text", "date", "category", "number")
_TYPES = {"float32": "float", "int64": "int", "string": "text"}


@dataclass(frozen=True)
class Argument:
    """One argument of the signature `raw`."""

    name: str  # in the signature
    column: str  # in records
    role: str
    kind: str  # int, float, bool, text or bytes: the type of the column in a table, as in `ingest.columns`
    dtype: str = ""  # of a tensor: NumPy's name
    shape: tuple[int, ...] = ()  # of a tensor


@dataclass(frozen=True)
class Reading:
    """What a model knows about its raw data."""

    arguments: tuple[Argument, ...]
    label: str  # column in records
    kind: Kind
    classes: tuple[str, ...] = ()  # in the order of the probabilities; none if it predicts a quantity
    label_source: str = ""  # column of the label in the data; empty for class folders
    image_source: str = ""  # column of image paths in the data; empty for class folders
    columns: tuple[str, ...] = ()  # of the training data's files, in their order; empty for class folders
    settings: Mapping[str, Any] = field(default_factory=dict)  # of ingest

    def write(self, model: Path) -> None:
        """Writes it into the folder of an exported model."""
        (model / READING).parent.mkdir(parents=True, exist_ok=True)
        stored = {"format": _FORMAT, **asdict(self)}
        durable.write_bytes(model / READING, orjson.dumps(stored, option=orjson.OPT_INDENT_2))


def parse(content: bytes) -> Reading:
    """Returns what `Reading.write` wrote; raises ValueError if it is something else."""
    stored = orjson.loads(content)
    if not isinstance(stored, dict) or stored.pop("format", None) != _FORMAT:
        raise ValueError(f"expected format {_FORMAT}")
    try:
        arguments = tuple(Argument(**{**each, "shape": tuple(each["shape"])}) for each in stored.pop("arguments"))
        lists: dict[str, Any] = {name: tuple(stored.pop(name)) for name in ("classes", "columns")}
        found = Reading(arguments, **lists, **stored)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"unexpected fields: {error}") from error
    _check(found)
    return found


def _check(found: Reading) -> None:
    """Raises ValueError for values that no export writes."""
    if not found.arguments:
        raise ValueError("it names no arguments")
    for each in found.arguments:
        is_named = all(isinstance(text, str) for text in (each.name, each.column, each.dtype))
        has_shape = all(isinstance(size, int) for size in each.shape)
        if not is_named or not has_shape or each.kind not in _KINDS or each.role not in _ROLES:
            raise ValueError(f"unexpected argument {each.name!r}")
    names = (found.label, found.label_source, found.image_source, *found.classes, *found.columns)
    if not all(isinstance(text, str) for text in names):
        raise ValueError("a name of a column or class is not text")
    if found.kind not in ("class", "quantity") or (found.kind == "class") != bool(found.classes):
        raise ValueError(f"kind {found.kind!r} with {len(found.classes)} classes")
    if not isinstance(found.settings, dict):
        raise ValueError("its settings are no object")  # noqa: TRY004 - as for any other file that is not ours


def of_training(
    arguments: Mapping[str, str],
    columns: Sequence[Column],
    ingested: "Manifest",
    records: "schema_pb2.Schema",
    kind: Kind,
    classes: Sequence[str],
    settings: Mapping[str, Any],
) -> Reading:
    """Returns what a training knows.

    Args:
        arguments: columns of records by argument of the signature.
        columns: of records, with their roles; one that is not among them is an image.
        ingested: manifest of the records.
        records: schema that Ingest inferred; empty for class folders.
        kind: of the label.
        classes: in the order of the model's outputs.
        settings: of ingest.
    """
    by_name = {column.name: column for column in columns}
    booleans = {feature.name for feature in records.feature if feature.HasField("bool_domain")}
    kept = {name: settings[name] for name in SETTINGS if name in settings}
    return Reading(
        arguments=tuple(_argument(name, by_name.get(own), own, booleans) for name, own in arguments.items()),
        label=ingested.label,
        kind=kind,
        classes=tuple(classes),
        label_source=ingested.label_source,
        image_source=ingested.image_source,
        columns=tuple(_file_columns(records, ingested, kept.get("text", ()))),
        settings=kept,
    )


def _argument(name: str, column: Column | None, own: str, booleans: set[str]) -> Argument:
    if column is None or column.role == "image":
        return Argument(name, own, "image", "bytes")
    if column.role == "tensor":
        return Argument(name, own, "tensor", "bytes", column.dtype, column.shape)
    return Argument(name, own, column.role, "bool" if own in booleans else _TYPES[column.dtype])


def _file_columns(records: "schema_pb2.Schema", ingested: "Manifest", text: Sequence[str]) -> list[str]:
    """Returns the columns of the files, in their order except those of joined texts, which come last."""
    joined, own = "_".join(text), schema.id_of(records)
    images = {column.name for column in roles.read(records, ingested.label).of(["image"])}
    names: list[str] = []
    for feature in records.feature:
        if feature.name == ingested.label:
            names.append(ingested.label_source)
        elif feature.name in images and ingested.image_source:
            names.append(ingested.image_source)
        elif len(text) > 1 and feature.name == joined:
            names += text
        elif feature.name != own:
            names.append(feature.name)
    return names
