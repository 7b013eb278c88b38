"""What each column of a record is for, as the curated schema says.

| in the schema                                   | role     | what becomes of it                               |
|-------------------------------------------------|----------|--------------------------------------------------|
| `image_domain`, without a dtype                 | image    | decoded                                          |
| tag `dtype:…` (and `shape:…`)                   | tensor   | its bytes are an array                           |
| tag `text`                                      | text     | tokens, by a fitted vocabulary                   |
| tag `date`                                      | date     | a number: days                                   |
| BYTES, or INT with the tag `category`           | category | a number by a fitted vocabulary                  |
| FLOAT or INT                                    | number   | scaled by what was fitted                        |
| tag `unused`, or several values in a record     | unused   | stays in the record, no model sees it            |

A record may lack a number, a category, a date or a text. Every reader of the schema then sees the same in its place
(`MISSING`), because the schema itself is made to say so (`with_defaults`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

Role = Literal["image", "tensor", "text", "date", "category", "number", "unused"]
Kind = Literal["class", "quantity"]  # of a label

TEXT, DATE, CATEGORY, UNUSED = "text", "date", "category", "unused"  # tags
# The same in Python's syntax and in RE2's.
DATE_PATTERN = (
    r"^\s*(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?)?\s*$"
)
_LOOKED_AT = "vectors of: "  # a tag: the column of images that they stand for
MISSING: Mapping[str, float | int | str] = {"float32": float("nan"), "int64": -(1 << 63), "string": ""}


@dataclass(frozen=True)
class Column:
    """One column of a record. Travels as plain values in a node's custom_config."""

    name: str
    role: Role
    dtype: str  # in the record: float32, int64 or string; of a tensor, as NumPy names it
    shape: tuple[int, ...] = ()  # of a tensor

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        return {**asdict(self), "shape": list(self.shape)}

    @staticmethod
    def from_dict(told: Mapping[str, Any]) -> "Column":
        """Reads what `to_dict` returned."""
        return Column(told["name"], told["role"], told["dtype"], tuple(told["shape"]))


@dataclass(frozen=True)
class Layout:
    """All columns of a record but its id."""

    label: str
    kind: Kind
    columns: tuple[Column, ...]  # without the label

    def of(self, roles: Iterable[str]) -> tuple[Column, ...]:
        """Returns the columns of some roles, in the order of the schema."""
        wanted = set(roles)
        return tuple(column for column in self.columns if column.role in wanted)


def read(schema: "schema_pb2.Schema", label: str) -> Layout:
    """Returns what the columns are for; a label with a fraction is a quantity, any other names a class."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.records import schema as schemas

    own = schemas.id_of(schema)
    kind: Kind = "class"
    columns = []
    for feature in schema.feature:
        if feature.name == label:
            kind = "quantity" if feature.type == schema_pb2.FLOAT else "class"
        elif feature.name != own:
            columns.append(_column(feature))
    return Layout(label, kind, tuple(columns))


def vectors_of(image: str) -> str:
    """Returns what the vectors are called that a pretrained network has made of images."""
    return f"{image}_features"


def with_vectors(schema: "schema_pb2.Schema", label: str, width: int) -> "schema_pb2.Schema":
    """Returns the schema of the same records with a vector in the place of the image."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.errors import SettingsError

    images = [column.name for column in read(schema, label).of(["image"])]
    if len(images) != 1:
        raise SettingsError(f"extract.model: records have {len(images)} images, expected one for it to look at")
    made = schema_pb2.Schema()
    made.CopyFrom(schema)
    for feature in made.feature:
        if feature.name == images[0]:
            feature.name = vectors_of(feature.name)
            feature.ClearField("image_domain")
            feature.image_domain.SetInParent()
            feature.annotation.tag.extend(["dtype:<f4", f"shape:{width}", _LOOKED_AT + images[0]])
    return made


def looked_at(schema: "schema_pb2.Schema") -> str:
    """Returns the column of images that a pretrained network makes vectors of; empty if there is none."""
    tags = (tag for feature in schema.feature for tag in feature.annotation.tag)
    return next((tag.removeprefix(_LOOKED_AT) for tag in tags if tag.startswith(_LOOKED_AT)), "")


def with_defaults(schema: "schema_pb2.Schema", label: str) -> "schema_pb2.Schema":
    """Returns the schema with what stands for a missing value; what the user has said about a column stays."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    made = schema_pb2.Schema()
    made.CopyFrom(schema)
    always = {feature.name for feature in schema.feature if feature.HasField("shape")}
    some = {c.name: c.dtype for c in read(schema, label).of(["number", "category", "date", "text"])}
    if some.keys() <= always:
        return made
    told = made.tensor_representation_group[""].tensor_representation
    for feature in schema.feature:  # TFX takes all columns from here, or none
        if feature.name not in told:
            _represent(told[feature.name], feature, some.get(feature.name, ""), feature.name in always)
    return made


def _represent(told: Any, feature: "schema_pb2.Feature", dtype: str, is_always: bool) -> None:
    if not dtype and not is_always:  # several values
        told.varlen_sparse_tensor.column_name = feature.name
        return
    told.dense_tensor.column_name = feature.name
    told.dense_tensor.shape.CopyFrom(feature.shape)
    if not is_always:
        _set_default(told.dense_tensor.default_value, dtype)


def _set_default(value: Any, dtype: str) -> None:
    missing = MISSING[dtype]
    if dtype == "float32":
        value.float_value = missing
    elif dtype == "int64":
        value.int_value = missing
    else:
        value.bytes_value = str(missing).encode()


def _column(feature: "schema_pb2.Feature") -> Column:
    from tensorflow_metadata.proto.v0 import schema_pb2

    from components.records import schema as schemas

    dtype = {schema_pb2.FLOAT: "float32", schema_pb2.INT: "int64"}.get(feature.type, "string")
    tags = set(feature.annotation.tag)
    if (tensor := schemas.tensor_of(feature)) is not None:
        import numpy as np

        role: Role = "unused" if UNUSED in tags else "tensor"
        return Column(feature.name, role, np.dtype(tensor[0]).name, tensor[1])
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
