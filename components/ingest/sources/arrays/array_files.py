"""The arrays in an .npz or .npy file, and where their rows are: read from the headers, nothing is unpickled.

    .npy   magic, header (dtype, shape, order), rows
    .npz   zip of .npy files ─► stored: rows are read at their offset;  deflated: rows are streamed

`<name>_labels.npy` beside `<name>.npy`, or `labels.npy` beside the only other array, is not data of its own: it is the
array `label` of that file.
"""

import contextlib
import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np

from components.ingest.sources.rows import MAX_ROW, bad_file, too_large
from components.records.quarantine import printable
from components.storage.paths import DataPath, open_whole

_CHECKSUM_BYTES = 1 << 20  # read at once to verify checksums
_ENTRY_BYTES = 30  # header of a zip entry, before name and extra field
_END, _END_BYTES = b"PK\5\6", 22 + 65535  # the end record of a zip file: its mark, and its bytes with a full comment
_TOO_MANY = 0xFFFF  # the count of entries is stored elsewhere
_NPY: Any = np.lib.format  # untyped
_LABELS, _LABEL = "labels.npy", "label"
_SINGLE = ((), (1,))  # shapes of a row with one value; labels are often stored as (n, 1)
# Everything that numpy and zipfile were seen to raise for files with flipped bits.
_DAMAGE = (
    EOFError, KeyError, MemoryError, OSError, OverflowError, RuntimeError, SyntaxError, TypeError, ValueError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class ArrayFile:
    """One array: its dtype and shape, and where its rows are."""

    name: str
    path: DataPath
    member: str  # of the .npz, if compressed; empty if the rows are stored in the file
    offset: int  # of the first row, in the file or in the member
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    by_columns: bool  # Fortran order

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes per row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def is_single(self) -> bool:
        """Whether a row is one value."""
        return self.shape[1:] in _SINGLE

    @property
    def is_raw(self) -> bool:
        """Whether records hold the raw bytes of a row."""
        return self.dtype.kind == "c" or (not self.is_single and self.dtype.kind not in "US")


@contextlib.contextmanager
def reading(path: DataPath) -> Iterator[None]:
    """Turns everything that reading a damaged file raises into BadInput."""
    try:
        yield
    except _DAMAGE as error:
        raise bad_file(path, f"cannot be read: {error}; it may be damaged: write it again") from error


def arrays_of(path: DataPath, max_row: int = MAX_ROW) -> list[ArrayFile]:
    """Returns the arrays of a file sorted by name, with those of the label file; a row has at most `max_row` bytes."""
    with reading(path):
        found = _zipped(path) if path.suffix.lower() == ".npz" else [_plain(path, path.stem)]
    if labels := labels_of(path):
        with reading(labels):
            found.append(_plain(labels, _LABEL))
    found.sort(key=lambda array: array.name)
    _check_names(path, [array.name for array in found])
    for array in found:
        _check_array(array)
    if (size := sum(array.row_bytes for array in found)) > max_row:
        largest = max(found, key=lambda array: array.row_bytes)
        raise too_large(path, f"each row (array '{largest.name}' of shape {largest.shape})", f"{size:,} bytes", max_row)
    if len({array.rows for array in found}) > 1:
        lengths = ", ".join(f"'{array.name}' {array.rows:,}" for array in found)
        raise bad_file(
            path, f"arrays of different lengths: {lengths}; expected the same first dimension, one row per example"
        )
    return found


def _check_names(path: DataPath, names: list[str]) -> None:
    if not names:
        raise bad_file(path, "0 examples in it: no array")
    if len(set(names)) < len(names):
        raise bad_file(path, f"two arrays with the same name among {', '.join(names)}; rename one")


def _check_array(array: ArrayFile) -> None:
    name, dtype = f"array '{array.name}'", array.dtype
    if dtype.hasobject:
        advice = "save numbers or strings instead, for example array.astype(str)"
        raise bad_file(array.path, f"{name} holds Python objects, which are not unpickled; {advice}")
    if dtype.kind == "V":
        raise bad_file(array.path, f"{name} has a structured dtype {dtype}; save each field as an array of its own")
    if not array.shape:
        raise bad_file(array.path, f"{name} is a single value; expected one row per example")
    if not array.rows:
        raise bad_file(array.path, f"0 examples in it: {name} has the shape {array.shape}")
    if array.by_columns and array.member:
        advice = "save it in C order (numpy.ascontiguousarray) or without compression"
        raise bad_file(array.path, f"{name} is compressed in Fortran order; {advice}")


def _plain(path: DataPath, name: str) -> ArrayFile:
    with path.open("rb") as file:
        return _parse(file, name, path, path.stat().st_size)


def _zipped(path: DataPath) -> list[ArrayFile]:
    with path.open("rb") as file:
        file.read(1)  # raises OSError now; zipfile would report it as "not a zip file"
        with zipfile.ZipFile(file) as archive:
            _check_count(file, archive)
            return [_of_member(path, file, archive, info) for info in archive.infolist()]


def _check_count(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Compares the number of entries with the announced count: a flipped bit can hide one entry in another."""
    file.seek(-min(_END_BYTES, file.seek(0, io.SEEK_END)), io.SEEK_END)
    tail = file.read()
    at = tail.rfind(_END) + 10
    announced = int.from_bytes(tail[at : at + 2], "little")
    if announced not in {len(archive.infolist()), _TOO_MANY}:
        raise zipfile.BadZipFile(f"{len(archive.infolist())} arrays in it, {announced} announced")


def _of_member(path: DataPath, file: IO[bytes], archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ArrayFile:
    if not info.filename.endswith(".npy") or info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise bad_file(path, f"unexpected entry '{info.filename}'; expected only arrays, as numpy.savez writes them")
    name = info.filename.removesuffix(".npy")
    with archive.open(info) as stream:
        found = _parse(stream, name, path, info.file_size)
    if info.compress_type == zipfile.ZIP_DEFLATED:
        return replace(found, member=info.filename)
    return replace(found, offset=_data_offset(file, info) + found.offset)


def _data_offset(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Returns where the bytes of a stored entry begin, from the header before them."""
    file.seek(info.header_offset)
    head = file.read(_ENTRY_BYTES)
    name_length, extra_length = (int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
    return info.header_offset + _ENTRY_BYTES + name_length + extra_length


def _parse(stream: IO[bytes], name: str, path: DataPath, size: int) -> ArrayFile:
    """Reads the header of an array and compares it with the size of the file."""
    version = _NPY.read_magic(stream)
    if version == (1, 0):
        shape, by_columns, dtype = _NPY.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, by_columns, dtype = _NPY.read_array_header_2_0(stream)
    else:  # version 3 is only written for structured dtypes with names beyond Latin-1
        raise ValueError(f"unsupported version {version} of the .npy format")
    found = ArrayFile(name, path, "", stream.tell(), dtype, shape, by_columns)
    expected = found.offset + math.prod(shape) * dtype.itemsize
    if size != expected and not dtype.hasobject:  # the header does not announce the size of pickled objects
        raise ValueError(f"array '{name}' needs {expected:,} bytes with its header, found {size:,}")
    return found


def labels_of(path: DataPath) -> DataPath | None:
    """Returns the label file beside an .npy, if there is one."""
    if path.suffix.lower() != ".npy" or owner_of(path):
        return None
    own = path.with_name(f"{path.stem}_labels.npy")
    if own.is_file():
        return own
    shared = path.with_name(_LABELS)
    return shared if shared.is_file() and owner_of(shared) == path else None


def owner_of(path: DataPath) -> DataPath | None:
    """Returns the array that a label file belongs to; None if the file is data of its own."""
    if path.name == _LABELS:
        return _only_array_beside(path)
    owner = path.with_name(path.name.removesuffix("_labels.npy") + ".npy")
    return owner if path.name.endswith("_labels.npy") and owner.is_file() else None


def _only_array_beside(labels: DataPath) -> DataPath | None:
    names = {path.name for path in labels.parent.glob("[!.]*.npy")} - {labels.name}
    with_own = {name for name in names if f"{name.removesuffix('.npy')}_labels.npy" in names}
    others = sorted(names - with_own - {f"{name.removesuffix('.npy')}_labels.npy" for name in with_own})
    if len(others) > 1:
        advice = "name it <array>_labels.npy, or put all into one .npz (numpy.savez)"
        raise bad_file(labels, f"may belong to {' or '.join(map(printable, others))}; {advice}")
    return labels.with_name(others[0]) if others else None


def verify_checksums(path: DataPath, arrays: Sequence[ArrayFile]) -> None:
    """Verifies the checksums of the uncompressed arrays of an .npz, which reading at an offset does not."""
    if path.suffix.lower() != ".npz" or all(array.member for array in arrays):
        return
    with reading(path), open_whole(path) as file, zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            with archive.open(info) as stream:
                while info.compress_type == zipfile.ZIP_STORED and stream.read(_CHECKSUM_BYTES):
                    pass


@contextlib.contextmanager
def open_rows(array: ArrayFile) -> Iterator[IO[bytes]]:
    """Opens the file or the member that holds the rows of an array."""
    if not array.member:
        with array.path.open("rb") as file:
            yield file
        return
    with open_whole(array.path) as file, zipfile.ZipFile(file) as archive, archive.open(array.member) as stream:
        yield stream
