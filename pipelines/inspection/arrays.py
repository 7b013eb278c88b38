"""Arrays that are stored as raw bytes, as lists of numbers or as images.

field metadata {b"dtype": b"<f4", b"shape": b"28,28"}, bytes in the column ─► list of numbers, shape
"""

import io
import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NUMBERS = "biuf"  # kinds of dtype; complex numbers and dates stay bytes
_MIN_SIDE = 8  # pixels; smaller arrays are hardly images
_CHANNELS = (1, 3)


def shape_of(field: pa.Field) -> tuple[int, ...]:
    """Returns the shape of the arrays in a field; empty if it holds no arrays."""
    stored = (field.metadata or {}).get(b"shape", b"").decode()
    return tuple(int(side) for side in stored.split(",") if side.strip())


def unpacked_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with lists of numbers instead of the raw bytes of arrays."""
    return pa.schema([_unpacked(field) for field in schema])


def unpack(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch of `schema` with lists of numbers instead of the raw bytes of arrays."""
    fields = [schema.field(name) if name in schema.names else batch.schema.field(name) for name in batch.schema.names]
    if not any(_dtype(field) is not None for field in fields):
        return batch
    columns = [_column(column, field) for column, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=unpacked_schema(pa.schema(fields)))


def is_image(field: pa.Field) -> bool:
    """Whether the arrays of a field have the shape and type of images."""
    shape = shape_of(field)
    if not pa.types.is_list(field.type) or field.type.value_type != pa.uint8():
        return False
    flat = len(shape) == 2 or (len(shape) == 3 and shape[2] in _CHANNELS)  # noqa: PLR2004 - height, width, channels
    return flat and min(shape[:2]) >= _MIN_SIDE


def as_png(values: pa.Array, shape: tuple[int, ...]) -> bytes:
    """Returns an array of pixels as a PNG file."""
    from PIL import Image

    pixels = values.to_numpy().reshape(shape)
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if shape[2:] == (1,) else pixels).save(buffer, "PNG")
    return buffer.getvalue()


def _dtype(field: pa.Field) -> "np.dtype[np.generic] | None":
    stored = (field.metadata or {}).get(b"dtype")
    if stored is None or not pa.types.is_binary(field.type) or not shape_of(field):
        return None
    dtype = np.dtype(stored.decode())
    return dtype if dtype.kind in _NUMBERS else None


def _unpacked(field: pa.Field) -> pa.Field:
    dtype = _dtype(field)
    if dtype is None:
        return field
    return pa.field(field.name, pa.list_(pa.from_numpy_dtype(dtype)), metadata=field.metadata)


def _column(column: pa.Array, field: pa.Field) -> pa.Array:
    dtype = _dtype(field)
    if dtype is None:
        return column
    missing = column.is_null().to_numpy(zero_copy_only=False)
    numbers: npt.NDArray[np.generic] = np.frombuffer(b"".join(column.drop_null().to_pylist()), dtype)
    ends = np.cumsum(np.where(missing, 0, math.prod(shape_of(field))))
    # In Arrow, a list is missing if its first offset is.
    offsets = pa.array(np.append(0, ends), pa.int32(), mask=np.append(missing, False))
    return pa.ListArray.from_arrays(offsets, pa.array(numbers))
