"""The role of each column of a record, as the curated schema defines it.

| in the schema                                   | role     | use                                              |
|-------------------------------------------------|----------|--------------------------------------------------|
| `image_domain`, without a dtype                 | image    | decoded                                          |
| tag `dtype:…` (and `shape:…`)                   | tensor   | its bytes are an array                           |
| tag `text`                                      | text     | tokens, by a fitted vocabulary                   |
| tag `date`                                      | date     | days, as a number                                |
| BYTES, or INT with the tag `category`           | category | index in a fitted vocabulary                     |
| FLOAT or INT                                    | number   | scaled by fitted statistics                      |
| tag `unused`, or several values per record      | unused   | stays in the record; not an input of the model   |

A record may lack a number, a category, a date or a text. Every reader of the schema then gets the same default value
(`MISSING`), because the schema itself defines it (`with_defaults`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from components.records.schema import CATEGORY, DATE, DTYPE, SHAPE, TEXT, UNUSED, id_of, tensor_of

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

Role = Literal["image", "tensor", "text", "date", "category", "number", "unused"]
Kind = Literal["class", "quantity"]  # of a label

# Valid in Python's syntax and in RE2's.
DATE_PATTERN = (
    r"^\s*(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
_EMBEDDING_OF = "embedding of: "  # a tag, with the column of the images
MISSING: Mapping[str, float | int | str] = {"float32": float("nan"), "int64": -(1 << 63), "string": ""}
_DEFAULT_FIELDS = {"float32": "float_value", "int64": "int_value", "string": "bytes_value"}  # of a default value


@dataclass(frozen=True)
class Column:
    """One column of a record; its `to_dict` is part of a node's custom_config."""

    name: str
    role: Role
    dtype: str  # in the record: float32, int64 or string; of a tensor, NumPy's name
    shape: tuple[int, ...] = ()  # of a tensor

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return {**asdict(self), "shape": list(self.shape)}

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> "Column":
        """Returns the column that `to_dict` was called on."""
        return Column(stored["name"], stored["role"], stored["dtype"], tuple(stored["shape"]))


@dataclass(frozen=True)
class Layout:
    """All columns of a record except its id."""

    label: str
    kind: Kind
    columns: tuple[Column, ...]  # without the label

    def of(self, roles: Iterable[str]) -> tuple[Column, ...]:
        """Returns the columns with one of these roles, in the order of the schema."""
        wanted = set(roles)
        return tuple(column for column in self.columns if column.role in wanted)


def read(schema: "schema_pb2.Schema", label: str) -> Layout:
    """Returns the roles of all columns; a FLOAT label is a quantity, any other a class."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    record_id = id_of(schema)
    kind: Kind = "class"
    columns = []
    for feature in schema.feature:
        if feature.name == label:
            kind = "quantity" if feature.type == schema_pb2.FLOAT else "class"
        elif feature.name != record_id:
            columns.append(_column(feature))
    return Layout(label, kind, tuple(columns))


def embedding_column(image: str) -> str:
    """Returns the name of the column with the embeddings of the images in a column."""
    return f"{image}_features"


def length_column(text: str) -> str:
    """Returns the name of the column with the length class of a text, by which metrics are sliced."""
    return f"{text}_length"


def with_embeddings(schema: "schema_pb2.Schema", label: str, width: int) -> "schema_pb2.Schema":
    """Returns the schema of the same records with an embedding of `width` values instead of the image."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.errors import SettingsError

    images = [column.name for column in read(schema, label).of(["image"])]
    if len(images) != 1:
        raise SettingsError(f"extract.model: records have {len(images)} image columns, expected exactly one")
    changed = schema_pb2.Schema()
    changed.CopyFrom(schema)
    for feature in changed.feature:
        if feature.name == images[0]:
            feature.name = embedding_column(feature.name)
            feature.ClearField("image_domain")
            feature.image_domain.SetInParent()
            feature.annotation.tag.extend([f"{DTYPE}<f4", f"{SHAPE}{width}", _EMBEDDING_OF + images[0]])
    return changed


def embedded_image(schema: "schema_pb2.Schema") -> str:
    """Returns the column of the images that the schema has embeddings of; empty if it has none."""
    tags = (tag for feature in schema.feature for tag in feature.annotation.tag)
    return next((tag.removeprefix(_EMBEDDING_OF) for tag in tags if tag.startswith(_EMBEDDING_OF)), "")


def with_defaults(schema: "schema_pb2.Schema", label: str) -> "schema_pb2.Schema":
    """Returns the schema with default values for missing ones, except where the user has defined a representation."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    changed = schema_pb2.Schema()
    changed.CopyFrom(schema)
    required = {feature.name for feature in schema.feature if feature.HasField("shape")}
    optional = {c.name: c.dtype for c in read(schema, label).of(["number", "category", "date", "text"])}
    if optional.keys() <= required:
        return changed
    representations = changed.tensor_representation_group[""].tensor_representation
    for feature in schema.feature:  # TFX takes all columns from here, or none
        if feature.name not in representations:
            dtype = optional.get(feature.name, "")
            _represent(representations[feature.name], feature, dtype, feature.name in required)
    return changed


def _represent(representation: Any, feature: "schema_pb2.Feature", dtype: str, is_required: bool) -> None:
    if not dtype and not is_required:  # several values
        representation.varlen_sparse_tensor.column_name = feature.name
        return
    representation.dense_tensor.column_name = feature.name
    representation.dense_tensor.shape.CopyFrom(feature.shape)
    if not is_required:
        missing = MISSING[dtype]
        value = missing.encode() if isinstance(missing, str) else missing
        setattr(representation.dense_tensor.default_value, _DEFAULT_FIELDS[dtype], value)


def _column(feature: "schema_pb2.Feature") -> Column:
    from tensorflow_metadata.proto.v0 import schema_pb2

    dtype = {schema_pb2.FLOAT: "float32", schema_pb2.INT: "int64"}.get(feature.type, "string")
    tags = set(feature.annotation.tag)
    if (tensor := tensor_of(feature)) is not None:
        return Column(feature.name, "unused" if UNUSED in tags else "tensor", tensor[0].name, tensor[1])
    return Column(feature.name, _role(feature, tags, dtype), dtype)


def _role(feature: "schema_pb2.Feature", tags: set[str], dtype: str) -> Role:
    is_single = feature.HasField("shape") or feature.value_count.max == 1
    if UNUSED in tags or not is_single:
        return "unused"
    if feature.HasField("image_domain"):
        return "image"
    if dtype == "string":
        return "text" if TEXT in tags else "date" if DATE in tags else "category"
    return "category" if CATEGORY in tags and dtype == "int64" else "number"
