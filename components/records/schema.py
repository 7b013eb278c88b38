"""The tags of a feature in the TensorFlow Metadata schema: what the proto has no field for.

    annotation { tag: "dtype:<f4" tag: "shape:28,28" }   the bytes are a tensor
    annotation { tag: "record id" }                      the column of record ids

Tags survive as text, and no other program reads them. Which role a column has is decided in roles.py.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from tensorflow_metadata.proto.v0 import schema_pb2

DTYPE, SHAPE, RECORD_ID = "dtype:", "shape:", "record id"
TEXT, DATE, CATEGORY, UNUSED = "text", "date", "category", "unused"
_ID = "id"  # of records whose schema was written by hand


def tensor_of(feature: "schema_pb2.Feature") -> "tuple[np.dtype[np.generic], tuple[int, ...]] | None":
    """Returns dtype and shape of a feature that holds the bytes of a tensor; None if it does not."""
    import numpy as np

    dtype, shape = _tag(feature, DTYPE), _tag(feature, SHAPE)
    return None if dtype is None else (np.dtype(dtype), tuple(map(int, filter(None, (shape or "").split(",")))))


def id_of(schema: "schema_pb2.Schema") -> str:
    """Returns the column of record ids: "id", unless the user's data has a column of this name."""
    return next((feature.name for feature in schema.feature if RECORD_ID in feature.annotation.tag), _ID)


def _tag(feature: "schema_pb2.Feature", prefix: str) -> str | None:
    return next((tag.removeprefix(prefix) for tag in feature.annotation.tag if tag.startswith(prefix)), None)
