"""Rows of NumPy arrays: .npz with several arrays of equal length, or .npy. Nothing is unpickled.

    headers ─► arrays (file, offset, dtype, shape) ─► ranges of rows ─► blocks read at their offset ─► columns

| a row of the array is             | in the record                                       |
|-----------------------------------|-----------------------------------------------------|
| one number, also of shape (1,)    | int64, float32, float64 or bool                     |
| one string, bytes or datetime     | string, binary, ISO 8601 string                     |
| several strings or bytes          | a list of them, in C order                          |
| any other shape or dtype          | binary: the raw little-endian bytes, for decode_raw |

The metadata of a field of raw bytes has its dtype and shape: {b"dtype": b"<f4", b"shape": b"28,28"}.

An array of an .npz is a column with its name. An .npy is a column with the name of the file; the labels beside it are
the column `label` (`array_files.py`).

NumPy pads strings with NUL, so a NUL at the end of one is already lost in the array; inside one it is kept.

Whole arrays are never in memory: rows are read at their offset, compressed ones are streamed. The checksums of an .npz
are verified; an .npy has none, so only its header and size are checked.
"""

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.ingest.sources.arrays.array_files import (
    ArrayFile,
    arrays_of,
    open_rows,
    owner_of,
    reading,
    verify_checksums,
)
from components.ingest.sources.conversion import OVERFLOW, Reasons, found, row_batch
from components.ingest.sources.rows import LimitedRows, Range, RowBatch, bad_file
from components.records.quarantine import RAW_LIMIT
from components.storage.paths import DataPath

Rows = npt.NDArray[Any]

_BATCH_ROWS = 8192
_BATCH_BYTES = 8 << 20
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)


class ArrayRows(LimitedRows):
    """Reads .npz and .npy files."""

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns one column per array."""
        return pa.schema([_field(array) for array in arrays_of(owner_of(path) or path, self.max_row)])

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Divides at any row; compressed arrays are one range, and label files have none of their own."""
        if owner_of(path):
            return []
        arrays = arrays_of(path, self.max_row)
        verify_checksums(path, arrays)
        rows, row_bytes = arrays[0].rows, sum(array.row_bytes for array in arrays)
        whole = any(array.member for array in arrays)
        count = 1 if whole else max(1, min(-(-rows * row_bytes // max(1, target)), rows))
        edges = [rows * index // count for index in range(count + 1)]
        return [Range(relative, a, b, a + 1, (b - a) * row_bytes) for a, b in itertools.pairwise(edges)]

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads the rows of a range from all arrays."""
        # Arrays that are not in the schema are not read, except one if no other gives the number of rows.
        arrays = arrays_of(path, self.max_row)
        arrays = [array for array in arrays if array.name in schema.names] or arrays[:1]
        _check_layout(arrays, schema)
        for start, blocks in _blocks(path, arrays, part):
            yield _row_batch(arrays, blocks, start, schema)


SOURCE = ArrayRows()


def _check_layout(arrays: Sequence[ArrayFile], schema: pa.Schema) -> None:
    """Compares dtype and shape of raw bytes with the schema, because the bytes in a record do not show them."""
    for array in arrays:
        wanted = _layout(schema.field(array.name)) if array.name in schema.names else ""
        if wanted not in {"", _layout(_field(array))}:
            what = f"array '{array.name}' has rows of {array.dtype.str} of shape {array.shape[1:]}"
            raise bad_file(array.path, f"{what}, expected {wanted}; all files of a data set need the same shape")


def _layout(field: pa.Field) -> str:
    metadata = field.metadata or {}
    return " of shape ".join(metadata[key].decode() for key in (b"dtype", b"shape") if key in metadata)


def _field(array: ArrayFile) -> pa.Field:
    if array.is_raw:
        shape = ",".join(map(str, array.shape[1:]))
        return pa.field(array.name, pa.binary(), metadata={"dtype": _stored(array.dtype).str, "shape": shape})
    kind = _KINDS[array.dtype.kind]
    if array.dtype.kind == "f" and array.dtype.itemsize > np.dtype(np.float32).itemsize:
        kind = pa.float64()
    return pa.field(array.name, kind if array.is_single else pa.list_(kind))


_KINDS = {
    "b": pa.bool_(), "i": pa.int64(), "u": pa.int64(), "f": pa.float32(), "U": pa.string(), "S": pa.binary(),
    "M": pa.string(), "m": pa.int64(),
}  # fmt: skip


# Units of datetimes; all others become seconds.
_ARROW_UNITS = {
    "Y": "D", "M": "D", "W": "D", "D": "D", "ms": "ms", "us": "us", "ns": "ns", "ps": "ns", "fs": "ns", "as": "ns",
}  # fmt: skip


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype of raw bytes: little-endian, and one that TensorFlow can decode."""
    if dtype.kind in "mM":
        return np.dtype("<i8")
    widest = {"f": np.dtype("<f8"), "c": np.dtype("<c16")}.get(dtype.kind)
    return widest if widest and dtype.itemsize > widest.itemsize else dtype.newbyteorder("<")


def _blocks(path: DataPath, arrays: Sequence[ArrayFile], part: Range) -> Iterator[tuple[int, list[Rows]]]:
    """Yields the same rows of all arrays, with the number of the first row."""
    row_bytes = sum(array.row_bytes for array in arrays)
    step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes)))
    with contextlib.ExitStack() as stack, reading(path):
        streams = [stack.enter_context(open_rows(array)) for array in arrays]
        for start in range(part.start, part.stop, step):
            stop = min(start + step, part.stop)
            yield start, [_block(array, stream, start, stop) for array, stream in zip(arrays, streams, strict=True)]


def _block(array: ArrayFile, stream: IO[bytes], start: int, stop: int) -> Rows:
    """Returns some rows of an array."""
    if array.by_columns:
        return np.ascontiguousarray(_block_of_columns(array, stream, start, stop))
    # In a compressed member this seek does nothing or reads ahead, because its range begins at the first row.
    stream.seek(array.offset + start * array.row_bytes)
    wanted = (stop - start) * array.row_bytes
    data = stream.read(wanted)
    if len(data) < wanted:
        raise EOFError(f"array '{array.name}' ends within rows {start + 1:,} to {stop:,}")
    if array.member and stop == array.rows:
        stream.read(1)  # zipfile compares the checksum at the end
    return np.ndarray((stop - start, *array.shape[1:]), array.dtype, data)


def _block_of_columns(array: ArrayFile, stream: IO[bytes], start: int, stop: int) -> Rows:
    """Returns some rows of an array in Fortran order: some bytes of every column."""
    if isinstance(array.path, Path):
        return np.memmap(array.path, array.dtype, "r", array.offset, array.shape, order="F")[start:stop]
    size, parts = array.dtype.itemsize, []
    for column in range(math.prod(array.shape[1:])):
        stream.seek(array.offset + (column * array.rows + start) * size)
        parts.append(stream.read((stop - start) * size))
    return np.ndarray((stop - start, *array.shape[1:]), array.dtype, b"".join(parts), order="F")


def _row_batch(arrays: Sequence[ArrayFile], blocks: Sequence[Rows], start: int, schema: pa.Schema) -> RowBatch:
    def describe(row: int) -> tuple[str, bytes]:
        values = {array.name: _first_values(block[row]) for array, block in zip(arrays, blocks, strict=True)}
        return f"row {start + row + 1}", str(values).encode(errors="backslashreplace")

    columns: dict[str, pa.Array] = {}
    bad: Reasons = {}
    for array, block in zip(arrays, blocks, strict=True):
        columns[array.name], reasons = _raw_column(array, block) if array.is_raw else _column(array, block)
        bad = {**{row: f"array '{array.name}' {reason}" for row, reason in reasons.items()}, **bad}
    return row_batch(columns, len(blocks[0]), schema, describe, arrays[0].path, "array", bad, start + 1)


def _first_values(row: Rows) -> Any:
    """Returns as many values of a row as are kept of a bad row."""
    if row.dtype.kind in "US":
        return row.tobytes()[:RAW_LIMIT]  # it may be invalid Unicode
    return np.ravel(row)[:RAW_LIMIT].tolist()


def _raw_column(array: ArrayFile, block: Rows) -> tuple[pa.Array, Reasons]:
    """Returns the bytes of each row, and the rows with numbers that are not finite."""
    stored = np.ascontiguousarray(block.astype(_stored(array.dtype), copy=False))
    reasons = _not_finite(stored) if stored.dtype.kind in "fc" else {}
    offsets = np.arange(len(block) + 1, dtype=np.int64) * (stored.nbytes // len(block))
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(stored.reshape(-1).view(np.uint8))]
    return pa.Array.from_buffers(pa.binary(), len(block), buffers), reasons


def _not_finite(block: Rows) -> Reasons:
    """Returns the rows with a number that is nan, or infinite as float32, and the first such number of each."""
    wide = block.dtype.itemsize > np.dtype(np.float32).itemsize * (1 + (block.dtype.kind == "c"))
    finite = np.abs(block) < OVERFLOW if wide else np.isfinite(block)
    if finite.all():
        return {}
    reasons: Reasons = {}
    for row in np.flatnonzero(~finite.reshape(len(block), -1).all(axis=1)).tolist():
        at = np.unravel_index(int(np.argmin(finite[row])), block.shape[1:]) if block.ndim > 1 else ()
        where = ", ".join(str(int(index)) for index in at)
        reasons[row] = f"{found(block[row][at])} at ({where})"
    return reasons


def _column(array: ArrayFile, block: Rows) -> tuple[pa.Array, Reasons]:
    """Returns single values, or lists of strings."""
    values = block.reshape(-1)
    reasons: Reasons = {}
    if array.dtype.kind == "U":
        values, reasons = _check_strings(values, len(block))
    column = _values(values)
    if array.is_single:
        return column, reasons
    offsets = np.arange(len(block) + 1, dtype=np.int32) * math.prod(array.shape[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), column), reasons


def _values(values: Rows) -> pa.Array:
    kind = values.dtype.kind
    if kind in "US":
        return pa.array(values.tolist(), _KINDS[kind])
    if kind == "M":
        return pa.array(values.astype(f"M8[{_ARROW_UNITS.get(np.datetime_data(values.dtype)[0], 's')}]"))
    if kind == "m":
        return pa.array(values.astype("<i8"), mask=np.isnat(values))
    if kind == "f":
        values = values.astype(np.float64 if values.dtype.itemsize > np.dtype(np.float32).itemsize else np.float32)
    return pa.array(values.astype(values.dtype.newbyteorder("="), copy=False))


def _check_strings(values: Rows, rows: int) -> tuple[Rows, Reasons]:
    """Replaces strings that are not Unicode, which Arrow cannot convert, and returns their rows."""
    if not values.dtype.itemsize:
        return values, {}
    codes = values.astype(values.dtype.newbyteorder("="), copy=False).view(np.uint32).reshape(len(values), -1)
    wrong = ((codes > _LAST_CHARACTER) | ((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1]))).any(axis=1)
    if not wrong.any():
        return values, {}
    kept = values.copy()
    kept[wrong] = ""
    bad = np.flatnonzero(wrong.reshape(rows, -1).any(axis=1)).tolist()
    return kept, dict.fromkeys(bad, "holds a string that is not Unicode")
