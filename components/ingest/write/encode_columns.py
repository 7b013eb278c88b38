"""A batch of columns to serialized tf.Examples, a column at a time: the same bytes as protobuf's deterministic mode.

    column ─► prefix and payload of all its rows ─► equally long neighbours become one ─► joined by Arrow ─► records

No record is touched in Python until its bytes are whole. A missing value leaves its key out. Lists of numbers or
strings are features of several values.

Columns are encoded once and may be joined more than once: all of them make the record, all but the label decide about
its split.
"""

from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.ingest.write.encode_record import varint

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_BYTES, _FLOATS, _INTS = b"\x0a", b"\x12", b"\x1a"  # tags of Feature's three lists
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"  # tags of length-delimited fields
_SMALL = 0x80
_MISSING = -1  # length of what is not there: not even its key is
_WIDE = 1 << 31  # bytes in one array that 32-bit offsets cannot tell apart
_SHORT = 1 << 16  # lengths up to which distinct ones are found by counting: sorting takes ten times as long


@dataclass(frozen=True)
class Encoded:
    """Bytes of every row."""

    array: pa.Array  # binary

    def __len__(self) -> int:
        return len(self.array)

    def rows(self) -> list[bytes]:
        """Returns each row's bytes."""
        rows: list[bytes] = self.array.to_numpy(zero_copy_only=False).tolist()
        return rows


@dataclass(frozen=True)
class _Pieces:
    """One piece of every row: row i's is data[offsets[i]:offsets[i + 1]]."""

    data: Bytes
    offsets: Ints


Part = Bytes | _Pieces  # a matrix where the pieces of all rows are of one length


@dataclass(frozen=True)
class Entries:
    """What stands in each record for its columns, in the order of their keys."""

    rows: int
    keys: tuple[bytes, ...]  # the first one of each run
    runs: tuple[tuple[Part, ...], ...]  # neighbouring columns; those that were set apart have a run of their own

    def records(self) -> Encoded:
        """Returns whole records."""
        parts = [part for run in self.runs for part in run]
        body = sum((_lengths(part) for part in parts), np.zeros(self.rows, np.int64))
        return _join([_by_length(_field_of, body), *parts], self.rows)

    def only(self, name: str) -> Encoded:
        """Returns the entries of a column that was set apart."""
        return _join(self.runs[self.keys.index(name.encode())], self.rows)

    def without(self, name: str) -> Encoded:
        """Returns the entries of all columns but one that was set apart."""
        runs = zip(self.keys, self.runs, strict=True)
        return _join([part for key, run in runs if key != name.encode() for part in run], self.rows)

    def around(self, name: str, lengths: Ints) -> tuple[Encoded, Encoded]:
        """Returns what stands before and behind each value of one more column of bytes, whose name was set apart.

        So that large values need not be copied: a record is what stands before, the value, and what stands behind.
        """
        key = name.encode()
        place = bisect(self.keys, key)
        before, behind = ([part for run in runs for part in run] for runs in (self.runs[:place], self.runs[place:]))
        before.append(_by_length(lambda length: _prefix(key, _BYTES, length, _field_of), lengths))
        body = sum((_lengths(part) for part in (*before, *behind)), lengths)
        return _join([_by_length(_field_of, body), *before], self.rows), _join(behind, self.rows)

    def with_column(self, name: str, column: pa.Array) -> "Entries":
        """Returns the entries with one more column, whose name was set apart."""
        key = name.encode()
        place = bisect(self.keys, key)
        runs = (*self.runs[:place], tuple(_entry(key, column)), *self.runs[place:])
        return replace(self, keys=(*self.keys[:place], key, *self.keys[place:]), runs=runs)


def entries(batch: pa.RecordBatch, apart: Collection[str] = (), leave_out: str | None = None) -> Entries:
    """Encodes the columns of a batch: integers, floats, booleans, strings or bytes, or lists of them.

    Args:
        batch: the columns.
        apart: names of columns that will be left out or added; the batch need not have them.
        leave_out: a column that is not encoded.
    """
    columns = zip(batch.schema.names, batch.columns, strict=True)
    encoded = {name.encode(): _entry(name.encode(), column) for name, column in columns if name != leave_out}
    borders = sorted(name.encode() for name in apart)
    runs = [list(run) for _, run in groupby(sorted(encoded), lambda key: _section(borders, key))]
    merged = [tuple(_merged([part for key in run for part in encoded[key]])) for run in runs]
    return Entries(batch.num_rows, tuple(run[0] for run in runs), tuple(merged))


def encode(batch: pa.RecordBatch) -> Encoded:
    """Serializes a batch."""
    return entries(batch).records()


def _section(borders: Sequence[bytes], key: bytes) -> tuple[int, bool]:
    """Returns what tells the run of one key from those of others: no run reaches over a border."""
    return bisect(borders, key), key in borders


def _entry(key: bytes, column: pa.Array) -> list[Part]:
    """Returns prefix and payload of one key of the map, both empty where the value is missing."""
    tag, payload, head = _payload(column)
    lengths = _lengths(payload)
    if column.null_count:
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, _MISSING)
    return [_by_length(lambda length: _prefix(key, tag, length, head), lengths), payload]


def _prefix(key: bytes, tag: bytes, length: int, head: Callable[[int], bytes]) -> bytes:
    """Returns all that stands before the payload: entry{1: key, 2: Feature{tag: List{…}}}."""
    if length == _MISSING:
        return b""
    name = _FIELD_1 + varint(len(key)) + key
    inner = head(length)
    values = tag + varint(len(inner) + length) + inner
    feature = _FIELD_2 + varint(len(values) + length) + values
    return _FIELD_1 + varint(len(name) + len(feature) + length) + name + feature


def _field_of(length: int) -> bytes:
    """Returns the head of a field around a payload."""
    return _FIELD_1 + varint(length)


def _packed(length: int) -> bytes:
    """Returns the head of packed numbers: one field around all of them, and none around nothing."""
    return _field_of(length) if length else b""


def _none(length: int) -> bytes:  # noqa: ARG001 - strings of a list bring a field each of their own
    return b""


def _payload(column: pa.Array) -> tuple[bytes, Part, Callable[[int], bytes]]:
    """Returns the list's tag, each row's values as they stand in it, and what stands before them by their length."""
    values, rows = _flatten(column)
    if pa.types.is_floating(values.type):
        data = np.ascontiguousarray(values.to_numpy(zero_copy_only=False), dtype="<f4").view(np.uint8)
        return _FLOATS, _part(data, rows * 4), _packed
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        numbers = _varints(values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))
        return _INTS, _part(numbers.data, numbers.offsets[rows]), _packed
    strings = _binary(values)
    if not _is_list(column.type):
        return _BYTES, _part(strings.data, strings.offsets[rows]), _field_of
    fields = _binary(_join([_by_length(_field_of, np.diff(strings.offsets)), strings], len(values)).array)
    return _BYTES, _part(fields.data, fields.offsets[rows]), _none


def _flatten(column: pa.Array) -> tuple[pa.Array, Ints]:
    """Returns the values of all rows in a row, and where each row's begin; a missing row has none."""
    if _is_list(column.type):
        counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return column.flatten(), _offsets(counts)
    if not column.null_count:
        return column, np.arange(len(column) + 1)
    return column.drop_null(), _offsets(column.is_valid().to_numpy(zero_copy_only=False))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _binary(values: pa.Array) -> _Pieces:
    if not len(values):
        return _Pieces(np.empty(0, np.uint8), np.zeros(1, np.int64))
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)[values.offset :][: len(values) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return _Pieces(data[offsets[0] : offsets[-1]], offsets.astype(np.int64) - offsets[0])


def _varints(numbers: npt.NDArray[np.uint64]) -> _Pieces:
    """Encodes all numbers at once, a byte position at a time."""
    longest = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    lengths = np.ones(len(numbers), np.int64)
    table = np.empty((len(numbers), longest), np.uint8)
    for position in range(longest):
        rest = numbers >> np.uint64(7 * position)
        table[:, position] = rest.astype(np.uint8) | _SMALL
        lengths += rest >= _SMALL
    table[np.arange(len(numbers)), lengths - 1] &= 0x7F
    return _cut(table, lengths)


def _by_length(make: Callable[[int], bytes], lengths: Ints) -> Part:
    """Returns for every row the bytes that `make` gives for its length; it is called once a distinct length."""
    distinct, which = _distinct(lengths)
    made = [make(length) for length in distinct]
    sizes = np.array([len(piece) for piece in made], np.int64)
    table = np.zeros((len(made), int(sizes.max(initial=0))), np.uint8)
    for row, piece in enumerate(made):
        table[row, : len(piece)] = np.frombuffer(piece, np.uint8)
    if len(made) == 1:
        return np.broadcast_to(table, (len(lengths), table.shape[1]))
    return table[which] if (sizes == table.shape[1]).all() else _cut(table[which], sizes[which])


def _distinct(lengths: Ints) -> tuple[list[int], Ints]:
    """Returns the distinct lengths, and which of them each one is."""
    low, high = int(lengths.min(initial=0)), int(lengths.max(initial=0))
    if low == high:
        return [low], np.zeros(len(lengths), np.int64)
    if high > _SHORT:
        distinct, which = np.unique(lengths, return_inverse=True)
        return distinct.tolist(), which
    present = np.bincount(lengths - _MISSING) > 0
    found: list[int] = (np.flatnonzero(present) + _MISSING).tolist()
    return found, (np.cumsum(present) - 1)[lengths - _MISSING]


def _cut(table: Bytes, lengths: Ints) -> _Pieces:
    """Returns the rows of a matrix, each at its own length."""
    return _Pieces(table[np.arange(table.shape[1]) < lengths[:, None]], _offsets(lengths))


def _part(data: Bytes, offsets: Ints) -> Part:
    """Returns pieces as a matrix if they can be one."""
    lengths = np.diff(offsets)
    if len(lengths) and (lengths == lengths[0]).all():
        return data[offsets[0] : offsets[-1]].reshape(len(lengths), -1)
    return _Pieces(data, offsets)


def _lengths(part: Part) -> Ints:
    return np.diff(part.offsets) if isinstance(part, _Pieces) else np.full(len(part), part.shape[1])


def _merged(parts: Sequence[Part]) -> Iterator[Part]:
    """Yields parts with neighbours of one length each put together."""
    for varied, run in groupby(parts, lambda part: isinstance(part, _Pieces)):
        if varied:
            yield from run
        else:
            yield _side_by_side(list(run))  # type: ignore[arg-type]


def _side_by_side(matrices: Sequence[Bytes]) -> Bytes:
    """Returns matrices as one; prefixes are the same in all rows and are laid out in one go."""
    if len(matrices) == 1:
        return matrices[0]
    rows = len(matrices[0])
    edges = _offsets(np.array([matrix.shape[1] for matrix in matrices]))
    whole = np.empty((rows, edges[-1]), np.uint8)
    if rows:
        whole[:] = np.concatenate([matrix[0] for matrix in matrices])
    for matrix, start, stop in zip(matrices, edges[:-1], edges[1:], strict=True):
        if matrix.strides[0]:
            whole[:, start:stop] = matrix
    return whole


def _join(parts: Sequence[Part], rows: int) -> Encoded:
    """Puts the pieces of each row one behind another."""
    if not parts:
        return Encoded(pa.array([b""] * rows, pa.binary()))
    merged = list(_merged(parts))
    size = sum(part.data.size if isinstance(part, _Pieces) else part.size for part in merged)
    kind = pa.binary() if size < _WIDE else pa.large_binary()
    arrays = [_array(part, kind) for part in merged]
    return Encoded(pc.binary_join_element_wise(*arrays, pa.scalar(b"", kind)) if len(arrays) > 1 else arrays[0])


def _array(part: Part, kind: pa.DataType) -> pa.Array:
    if isinstance(part, _Pieces):
        data, offsets = part.data, part.offsets
    else:
        data, offsets = part.reshape(-1), np.arange(len(part) + 1) * part.shape[1]
    narrow = offsets.astype(np.int32 if kind == pa.binary() else np.int64)
    buffers = [None, pa.py_buffer(narrow), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def _offsets(lengths: npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]) -> Ints:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
