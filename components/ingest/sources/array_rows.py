"""Rows of NumPy arrays: .npz with several arrays of one length, or .npy. Nothing is unpickled.

    headers ─► arrays (file, offset, dtype, shape) ─► ranges of rows ─► blocks read at their offset ─► columns

| a row of the array is             | in the record                                       |
|-----------------------------------|-----------------------------------------------------|
| one number, also of shape (1,)    | int64, float32, float64 or bool                     |
| one text, one bytes, one datetime | string, binary, ISO 8601 string                     |
| several texts or bytes            | a list of them, row by row                          |
| any other shape or dtype          | binary: the raw little-endian bytes, for decode_raw |

The metadata of a field of raw bytes has its dtype and shape: {b"dtype": b"<f4", b"shape": b"28,28"}.

An array of an .npz is a column of its name. An .npy is a column named after the file. If `<name>_labels.npy` stands
beside `<name>.npy`, or `labels.npy` beside one other array, it is no data of its own: it is the column `label` there.

Whole arrays are never in memory: rows are read by offset, compressed ones streamed. The checksums of an .npz are
compared; an .npy has none, only its header and size can be checked.
"""

import contextlib
import io
import itertools
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.errors import BadInput
from components.ingest.rows import RAW_LIMIT, Range, RowBatch
from components.ingest.sources import printable
from components.ingest.sources.parquet_rows import Reasons, row_batch

Block = npt.NDArray[Any]

_BATCH_ROWS = 8192
_BATCH_BYTES = 8 << 20
_MAX_ROW_BYTES = 1 << 30  # a record of protobuf ends at 2 GB
_SUM_BYTES = 1 << 20  # read at once for checksums
_ENTRY_BYTES = 30  # of a zip entry's header, before name and extra field
_END, _END_BYTES = b"PK\5\6", 22 + 65535  # what a zip file ends with: mark, and bytes with the longest comment
_TOO_MANY = 0xFFFF  # entries: their count stands elsewhere
_NPY: Any = np.lib.format  # untyped
_LABELS, _LABEL = "labels.npy", "label"
_SINGLE = ((), (1,))  # shapes of a row that is one value: labels are often stored as (n, 1)
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)
# All that numpy and zipfile were seen to raise for files with flipped bits.
_DAMAGE = (
    EOFError, KeyError, MemoryError, OSError, OverflowError, RuntimeError, SyntaxError, TypeError, ValueError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class ArrayRows:
    """Reads .npz and .npy files."""

    suffixes: tuple[str, ...] = (".npz", ".npy")

    def schema(self, path: Path) -> pa.Schema:
        """Returns a column an array."""
        return pa.schema([_field(array) for array in _arrays(_owner(path) or path)])

    def divide(self, path: Path, relative: str, target: int) -> list[Range]:
        """Cuts at any row. What is compressed stays whole; the labels of another file have no range of their own."""
        if _owner(path):
            return []
        arrays = _arrays(path)
        _compare_sums(path, arrays)
        rows, row_bytes = arrays[0].rows, sum(array.row_bytes for array in arrays)
        whole = any(array.member for array in arrays)
        count = 1 if whole else max(1, min(-(-rows * row_bytes // max(1, target)), rows))
        edges = [rows * index // count for index in range(count + 1)]
        return [Range(relative, a, b, a + 1, (b - a) * row_bytes) for a, b in itertools.pairwise(edges)]

    def read(self, path: Path, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads the rows of a range from all arrays together."""
        # Arrays that the schema does not name are left unread, unless there would be no rows to count.
        arrays = _arrays(path)
        arrays = [array for array in arrays if array.name in schema.names] or arrays[:1]
        _compare(arrays, schema)
        for start, blocks in _blocks(path, arrays, part):
            yield _row_batch(arrays, blocks, start, schema)


SOURCE = ArrayRows()


@dataclass(frozen=True)
class _Array:
    """What an array is, and where it stands."""

    name: str
    path: Path
    member: str  # of the .npz, if compressed; empty where the rows stand in the file as they are
    offset: int  # of the first row: in the file, or in the member
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    by_columns: bool  # Fortran order

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def is_single(self) -> bool:
        return self.shape[1:] in _SINGLE

    @property
    def is_raw(self) -> bool:
        return self.dtype.kind == "c" or (not self.is_single and self.dtype.kind not in "US")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turns whatever reading a damaged file raises into one sentence that names it."""
    try:
        yield
    except _DAMAGE as error:
        raise _bad(path, f"cannot be read: {error}; it may be damaged: write it again") from error


def _bad(path: Path, what: str) -> BadInput:
    return BadInput(f"{printable(str(path))}: {what}")


def _arrays(path: Path) -> list[_Array]:
    """Returns the arrays of a file in the order of their names, with the labels beside it."""
    with _explained(path):
        found = _zipped(path) if path.suffix.lower() == ".npz" else [_plain(path, path.stem)]
    if labels := _labels_of(path):
        with _explained(labels):
            found.append(_plain(labels, _LABEL))
    found.sort(key=lambda array: array.name)
    _check_names(path, [array.name for array in found])
    for array in found:
        _check_array(array)
    if len({array.rows for array in found}) > 1:
        lengths = ", ".join(f"'{array.name}' {array.rows:,}" for array in found)
        raise _bad(path, f"arrays of different lengths: {lengths}; the first dimension must be that of the examples")
    return found


def _check_names(path: Path, names: list[str]) -> None:
    if not names:
        raise _bad(path, "0 examples in it: no array")
    if len(set(names)) < len(names):
        raise _bad(path, f"two arrays of one name among {', '.join(names)}; rename one")


def _check_array(array: _Array) -> None:
    name, dtype = f"array '{array.name}'", array.dtype
    if dtype.hasobject:
        advice = "save numbers or texts instead, for example array.astype(str)"
        raise _bad(array.path, f"{name} holds Python objects, which are not unpickled; {advice}")
    if dtype.kind == "V":
        raise _bad(array.path, f"{name} has rows of the structure {dtype}; save each field as an array of its own")
    if not array.shape:
        raise _bad(array.path, f"{name} is a single value; expected one row an example")
    if not array.rows:
        raise _bad(array.path, f"0 examples in it: {name} has the shape {array.shape}")
    if array.row_bytes > _MAX_ROW_BYTES:
        raise _bad(array.path, f"{name} has rows of {array.row_bytes:,} bytes; a record can hold {_MAX_ROW_BYTES:,}")
    if array.by_columns and array.member:
        advice = "save it by rows (numpy.ascontiguousarray) or without compression"
        raise _bad(array.path, f"{name} is compressed column by column; {advice}")


def _plain(path: Path, name: str) -> _Array:
    with path.open("rb") as file:
        return _parse(file, name, path, path.stat().st_size)


def _zipped(path: Path) -> list[_Array]:
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        _check_count(file, archive)
        return [_of_member(path, file, archive, info) for info in archive.infolist()]


def _check_count(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Compares the entries that were found with their announced count: a flipped bit can hide one in another."""
    file.seek(-min(_END_BYTES, file.seek(0, io.SEEK_END)), io.SEEK_END)
    tail = file.read()
    at = tail.rfind(_END) + 10
    announced = int.from_bytes(tail[at : at + 2], "little")
    if announced not in {len(archive.infolist()), _TOO_MANY}:
        raise zipfile.BadZipFile(f"{len(archive.infolist())} arrays in it, {announced} announced")


def _of_member(path: Path, file: IO[bytes], archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Array:
    if not info.filename.endswith(".npy") or info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise _bad(path, f"its entry '{info.filename}' is not as numpy.savez writes arrays; expected arrays only")
    name = info.filename.removesuffix(".npy")
    with archive.open(info) as stream:
        found = _parse(stream, name, path, info.file_size)
    if info.compress_type == zipfile.ZIP_DEFLATED:
        return _Array(name, path, info.filename, found.offset, found.dtype, found.shape, found.by_columns)
    start = _data_offset(file, info)
    return _Array(name, path, "", start + found.offset, found.dtype, found.shape, found.by_columns)


def _data_offset(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Returns where the bytes of a stored entry begin; only the header before them tells."""
    file.seek(info.header_offset)
    head = file.read(_ENTRY_BYTES)
    name_length, extra_length = (int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
    return info.header_offset + _ENTRY_BYTES + name_length + extra_length


def _parse(stream: IO[bytes], name: str, path: Path, size: int) -> _Array:
    """Reads an array's header and holds it against the bytes that are there."""
    version = _NPY.read_magic(stream)
    if version == (1, 0):
        shape, by_columns, dtype = _NPY.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, by_columns, dtype = _NPY.read_array_header_2_0(stream)
    else:  # version 3 is written only for structures with field names beyond Latin-1
        raise ValueError(f"unknown version {version} of the .npy format")
    found = _Array(name, path, "", stream.tell(), dtype, shape, by_columns)
    expected = found.offset + math.prod(shape) * dtype.itemsize
    if size != expected and not dtype.hasobject:  # the bytes of pickled objects are not announced
        raise ValueError(f"array '{name}' takes {expected:,} bytes with its header, but {size:,} are there")
    return found


def _labels_of(path: Path) -> Path | None:
    """Returns the file of labels that belongs to an .npy."""
    if path.suffix.lower() != ".npy" or _owner(path):
        return None
    own = path.with_name(f"{path.stem}_labels.npy")
    if own.is_file():
        return own
    shared = path.with_name(_LABELS)
    return shared if shared.is_file() and _owner(shared) == path else None


def _owner(path: Path) -> Path | None:
    """Returns the array that a file of labels belongs to; None where the file is data of its own."""
    if path.name == _LABELS:
        return _sole_array_beside(path)
    owner = path.with_name(path.name.removesuffix("_labels.npy") + ".npy")
    return owner if path.name.endswith("_labels.npy") and owner.is_file() else None


def _sole_array_beside(labels: Path) -> Path | None:
    names = {path.name for path in labels.parent.glob("[!.]*.npy")} - {labels.name}
    with_own = {name for name in names if f"{name.removesuffix('.npy')}_labels.npy" in names}
    others = sorted(names - with_own - {f"{name.removesuffix('.npy')}_labels.npy" for name in with_own})
    if len(others) > 1:
        advice = "name it <array>_labels.npy, or put all into one .npz (numpy.savez)"
        raise _bad(labels, f"may belong to {' or '.join(map(printable, others))}; {advice}")
    return labels.with_name(others[0]) if others else None


def _compare_sums(path: Path, arrays: Sequence[_Array]) -> None:
    """Reads what is stored uncompressed once: reading at an offset skips the checksums of the .npz."""
    if path.suffix.lower() != ".npz" or all(array.member for array in arrays):
        return
    with _explained(path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as stream:
                while info.compress_type == zipfile.ZIP_STORED and stream.read(_SUM_BYTES):
                    pass


def _compare(arrays: Sequence[_Array], schema: pa.Schema) -> None:
    """Holds dtype and shape of raw bytes against the schema: in a record they cannot be told any more."""
    for array in arrays:
        wanted = _layout(schema.field(array.name)) if array.name in schema.names else ""
        if wanted not in {"", _layout(_field(array))}:
            what = f"array '{array.name}' has rows of {array.dtype.str} of shape {array.shape[1:]}"
            raise _bad(array.path, f"{what}, expected {wanted}; all files of a set must agree")


def _layout(field: pa.Field) -> str:
    metadata = field.metadata or {}
    return " of shape ".join(metadata[key].decode() for key in (b"dtype", b"shape") if key in metadata)


def _field(array: _Array) -> pa.Field:
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


_ARROW_UNITS = {"Y": "D", "M": "D", "W": "D", "D": "D", "ms": "ms", "us": "us"} | dict.fromkeys(
    ("ns", "ps", "fs", "as"), "ns"
)  # of datetimes; all others become seconds


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype of raw bytes: little-endian, and one that TensorFlow can decode."""
    if dtype.kind in "mM":
        return np.dtype("<i8")
    widest = {"f": np.dtype("<f8"), "c": np.dtype("<c16")}.get(dtype.kind)
    return widest if widest and dtype.itemsize > widest.itemsize else dtype.newbyteorder("<")


@contextlib.contextmanager
def _stream(array: _Array) -> Iterator[IO[bytes]]:
    """Opens what an array's rows are read from, at its offset."""
    if not array.member:
        with array.path.open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(array.path) as archive, archive.open(array.member) as stream:
        yield stream


def _blocks(path: Path, arrays: Sequence[_Array], part: Range) -> Iterator[tuple[int, list[Block]]]:
    """Yields the same rows of all arrays, and the number of the first."""
    row_bytes = sum(array.row_bytes for array in arrays)
    step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes)))
    with contextlib.ExitStack() as stack, _explained(path):
        streams = [stack.enter_context(_stream(array)) for array in arrays]
        for start in range(part.start, part.stop, step):
            stop = min(start + step, part.stop)
            yield start, [_block(array, stream, start, stop) for array, stream in zip(arrays, streams, strict=True)]


def _block(array: _Array, stream: IO[bytes], start: int, stop: int) -> Block:
    """Returns some rows of an array."""
    if array.by_columns:
        mapped = np.memmap(array.path, array.dtype, "r", array.offset, array.shape, order="F")
        return np.array(mapped[start:stop], order="C")
    # In a compressed member this seek goes nowhere, or reads ahead: ranges begin at its first row.
    stream.seek(array.offset + start * array.row_bytes)
    wanted = (stop - start) * array.row_bytes
    data = stream.read(wanted)
    if len(data) < wanted:
        raise EOFError(f"array '{array.name}' ends within rows {start + 1:,} to {stop:,}")
    if array.member and stop == array.rows:
        stream.read(1)  # the checksum is compared when the end is met
    return np.ndarray((stop - start, *array.shape[1:]), array.dtype, data)


def _row_batch(arrays: Sequence[_Array], blocks: Sequence[Block], start: int, schema: pa.Schema) -> RowBatch:
    def describe(row: int) -> tuple[str, bytes]:
        values = {array.name: _glimpse(block[row]) for array, block in zip(arrays, blocks, strict=True)}
        return f"row {start + row + 1}", str(values).encode(errors="backslashreplace")

    columns: dict[str, pa.Array] = {}
    bad: Reasons = {}
    for array, block in zip(arrays, blocks, strict=True):
        columns[array.name], reasons = _raw_column(array, block) if array.is_raw else _column(array, block)
        bad = {**{row: f"array '{array.name}' {reason}" for row, reason in reasons.items()}, **bad}
    return row_batch(columns, len(blocks[0]), schema, describe, arrays[0].path, "array", bad)


def _glimpse(row: Block) -> Any:
    """Returns as many of a row's values as are kept of a bad row, and no more."""
    if row.dtype.kind in "US":
        return row.tobytes()[:RAW_LIMIT]  # what is wrong with it may be that it is no text
    return np.ravel(row)[:RAW_LIMIT].tolist()


def _raw_column(array: _Array, block: Block) -> tuple[pa.Array, Reasons]:
    """Returns each row's bytes, and where numbers are not finite."""
    stored = np.ascontiguousarray(block.astype(_stored(array.dtype), copy=False))
    reasons = _not_finite(stored) if stored.dtype.kind in "fc" else {}
    offsets = np.arange(len(block) + 1, dtype=np.int64) * (stored.nbytes // len(block))
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(stored.reshape(-1).view(np.uint8))]
    return pa.Array.from_buffers(pa.binary(), len(block), buffers), reasons


def _not_finite(block: Block) -> Reasons:
    """Returns the first number of every row that is nan or infinite."""
    finite = np.isfinite(block)
    if finite.all():
        return {}
    reasons: Reasons = {}
    for row in np.flatnonzero(~finite.reshape(len(block), -1).all(axis=1)).tolist():
        place = np.unravel_index(int(np.argmin(finite[row])), block.shape[1:]) if block.ndim > 1 else ()
        where = ", ".join(str(int(index)) for index in place)
        reasons[row] = f"holds {block[row][place]:g} at ({where})"
    return reasons


def _column(array: _Array, block: Block) -> tuple[pa.Array, Reasons]:
    """Returns single values, or lists of texts."""
    values = block.reshape(-1)
    reasons: Reasons = {}
    if array.dtype.kind == "U":
        values, reasons = _checked_texts(values, len(block))
    column = _values(values)
    if array.is_single:
        return column, reasons
    offsets = np.arange(len(block) + 1, dtype=np.int32) * math.prod(array.shape[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), column), reasons


def _values(values: Block) -> pa.Array:
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


def _checked_texts(values: Block, rows: int) -> tuple[Block, Reasons]:
    """Empties texts with numbers in them that are no characters, which would raise one by one."""
    if not values.dtype.itemsize:
        return values, {}
    codes = values.astype(values.dtype.newbyteorder("="), copy=False).view(np.uint32).reshape(len(values), -1)
    wrong = ((codes > _LAST_CHARACTER) | ((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1]))).any(axis=1)
    if not wrong.any():
        return values, {}
    kept = values.copy()
    kept[wrong] = ""
    bad = np.flatnonzero(wrong.reshape(rows, -1).any(axis=1)).tolist()
    return kept, dict.fromkeys(bad, "holds a text that is not Unicode")
