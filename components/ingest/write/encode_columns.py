"""Serializes a batch as tf.train.Examples, column by column, with the bytes of protobuf's deterministic mode.

    column ─► prefix and payload of all its rows ─► neighbours of fixed length are merged ─► joined by Arrow ─► records

No record is touched in Python before its bytes are complete. A missing value leaves its key out. A list of numbers or
strings is a feature with several values.

Columns are encoded once and may be joined several times: all of them are the record, all but the label and ids decide
about its split.
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

from components.ingest.sources.conversion import is_list
from components.ingest.write.encode_record import BYTES, FLOATS, INTS, SMALL, entry_head, field_head

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_MISSING = -1  # length of a missing value, whose key is left out as well
_WIDE = 1 << 31  # bytes in one array from which on 32-bit offsets are too small
_SHORT = 1 << 16  # distinct lengths up to this are found by counting: sorting takes ten times as long


@dataclass(frozen=True)
class EncodedRows:
    """The bytes of each row."""

    array: pa.Array  # binary

    def __len__(self) -> int:
        return len(self.array)

    def rows(self) -> list[bytes]:
        """Returns the bytes of each row."""
        rows: list[bytes] = self.array.to_numpy(zero_copy_only=False).tolist()
        return rows


@dataclass(frozen=True)
class _Varying:
    """One piece per row, of any length: that of row i is data[offsets[i]:offsets[i + 1]]."""

    data: Bytes
    offsets: Ints


Pieces = Bytes | _Varying  # one piece per row; a matrix if all have the same length


@dataclass(frozen=True)
class EncodedColumns:
    """The map entries of a batch, in the order of their keys."""

    rows: int
    keys: tuple[bytes, ...]  # the first key of each run
    runs: tuple[tuple[Pieces, ...], ...]  # neighbouring columns; each separate column is a run of its own

    def records(self) -> EncodedRows:
        """Returns complete records."""
        parts = [part for run in self.runs for part in run]
        body = sum((_lengths(part) for part in parts), np.zeros(self.rows, np.int64))
        return _join([_by_length(field_head, body), *parts], self.rows)

    def only(self, name: str) -> EncodedRows:
        """Returns the entries of one separate column."""
        return _join(self.runs[self.keys.index(name.encode())], self.rows)

    def without(self, names: Collection[str]) -> EncodedRows:
        """Returns the entries of all columns but some separate columns."""
        leave_out = {name.encode() for name in names}
        runs = zip(self.keys, self.runs, strict=True)
        return _join([part for key, run in runs if key not in leave_out for part in run], self.rows)

    def around(self, name: str, lengths: Ints) -> tuple[EncodedRows, EncodedRows]:
        """Returns the bytes of each record before and after the value of one more column, whose name is separate.

        A record is the bytes before, the value, and the bytes after: so large values are not copied.

        Args:
            name: of the column.
            lengths: of its values, which are bytes.
        """
        key = name.encode()
        place = bisect(self.keys, key)
        before, after = ([part for run in runs for part in run] for runs in (self.runs[:place], self.runs[place:]))
        before.append(_by_length(lambda length: entry_head(key, BYTES, length), lengths))
        body = sum((_lengths(part) for part in (*before, *after)), lengths)
        return _join([_by_length(field_head, body), *before], self.rows), _join(after, self.rows)

    def with_column(self, name: str, column: pa.Array) -> "EncodedColumns":
        """Returns the columns with one more, whose name is separate."""
        key = name.encode()
        place = bisect(self.keys, key)
        runs = (*self.runs[:place], tuple(_entry(key, column)), *self.runs[place:])
        return replace(self, keys=(*self.keys[:place], key, *self.keys[place:]), runs=runs)


def encode_columns(
    batch: pa.RecordBatch, separate: Collection[str] = (), leave_out: str | None = None
) -> EncodedColumns:
    """Encodes the columns of a batch: integers, floats, booleans, strings or bytes, or lists of them.

    Args:
        batch: the columns.
        separate: names of columns that will be left out or added later; the batch need not have them.
        leave_out: a column that is not encoded.
    """
    columns = zip(batch.schema.names, batch.columns, strict=True)
    encoded = {name.encode(): _entry(name.encode(), column) for name, column in columns if name != leave_out}
    borders = sorted(name.encode() for name in separate)
    runs = [list(run) for _, run in groupby(sorted(encoded), lambda key: _section(borders, key))]
    merged = [tuple(_merged([part for key in run for part in encoded[key]])) for run in runs]
    return EncodedColumns(batch.num_rows, tuple(run[0] for run in runs), tuple(merged))


def _section(borders: Sequence[bytes], key: bytes) -> tuple[int, bool]:
    """Returns which run a key belongs to: no run crosses a border, and a border is a run of its own."""
    return bisect(borders, key), key in borders


def _entry(key: bytes, column: pa.Array) -> list[Pieces]:
    """Returns prefix and payload of one map entry, both empty where the value is missing."""
    tag, payload, head = _payload(column)
    lengths = _lengths(payload)
    if column.null_count:
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, _MISSING)

    def prefix(length: int) -> bytes:
        return b"" if length == _MISSING else entry_head(key, tag, length, head)

    return [_by_length(prefix, lengths), payload]


def _packed(length: int) -> bytes:
    """Returns the header of packed numbers: one field for all of them, and no field for none."""
    return field_head(length) if length else b""


def _none(length: int) -> bytes:  # noqa: ARG001 - each string of a list has a field of its own
    return b""


def _payload(column: pa.Array) -> tuple[bytes, Pieces, Callable[[int], bytes]]:
    """Returns the tag of the list, the payload of each row, and a function from its length to its header."""
    values, rows = _flatten(column)
    if pa.types.is_floating(values.type):
        data = np.ascontiguousarray(values.to_numpy(zero_copy_only=False), dtype="<f4").view(np.uint8)
        return FLOATS, _pieces(data, rows * 4), _packed
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        numbers = _varints(values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))
        return INTS, _pieces(numbers.data, numbers.offsets[rows]), _packed
    strings = _binary(values)
    if not is_list(column.type):
        return BYTES, _pieces(strings.data, strings.offsets[rows]), field_head
    fields = _binary(_join([_by_length(field_head, np.diff(strings.offsets)), strings], len(values)).array)
    return BYTES, _pieces(fields.data, fields.offsets[rows]), _none


def _flatten(column: pa.Array) -> tuple[pa.Array, Ints]:
    """Returns the values of all rows one after another, and where those of each row begin; a missing row has none."""
    if is_list(column.type):
        counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return column.flatten(), _offsets(counts)
    if not column.null_count:
        return column, np.arange(len(column) + 1)
    return column.drop_null(), _offsets(column.is_valid().to_numpy(zero_copy_only=False))


def _binary(values: pa.Array) -> _Varying:
    if not len(values):
        return _Varying(np.empty(0, np.uint8), np.zeros(1, np.int64))
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)[values.offset :][: len(values) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return _Varying(data[offsets[0] : offsets[-1]], offsets.astype(np.int64) - offsets[0])


def _varints(numbers: npt.NDArray[np.uint64]) -> _Varying:
    """Encodes all numbers at once, one byte position after another."""
    longest = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    lengths = np.ones(len(numbers), np.int64)
    table = np.empty((len(numbers), longest), np.uint8)
    for position in range(longest):
        rest = numbers >> np.uint64(7 * position)
        table[:, position] = rest.astype(np.uint8) | SMALL
        lengths += rest >= SMALL
    table[np.arange(len(numbers)), lengths - 1] &= 0x7F
    return _cut(table, lengths)


def _by_length(make: Callable[[int], bytes], lengths: Ints) -> Pieces:
    """Returns for each row the bytes that `make` returns for its length; it is called once per distinct length."""
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
    """Returns the distinct lengths, and the index of each length among them."""
    low, high = int(lengths.min(initial=0)), int(lengths.max(initial=0))
    if low == high:
        return [low], np.zeros(len(lengths), np.int64)
    if high > _SHORT:
        distinct, which = np.unique(lengths, return_inverse=True)
        return distinct.tolist(), which
    present = np.bincount(lengths - _MISSING) > 0
    found: list[int] = (np.flatnonzero(present) + _MISSING).tolist()
    return found, (np.cumsum(present) - 1)[lengths - _MISSING]


def _cut(table: Bytes, lengths: Ints) -> _Varying:
    """Returns the rows of a matrix, each cut to its own length."""
    return _Varying(table[np.arange(table.shape[1]) < lengths[:, None]], _offsets(lengths))


def _pieces(data: Bytes, offsets: Ints) -> Pieces:
    """Returns pieces as a matrix if they all have the same length."""
    lengths = np.diff(offsets)
    if len(lengths) and (lengths == lengths[0]).all():
        return data[offsets[0] : offsets[-1]].reshape(len(lengths), -1)
    return _Varying(data, offsets)


def _lengths(part: Pieces) -> Ints:
    return np.diff(part.offsets) if isinstance(part, _Varying) else np.full(len(part), part.shape[1])


def _merged(parts: Sequence[Pieces]) -> Iterator[Pieces]:
    """Yields the pieces, with neighbours of fixed length merged into one matrix."""
    for varying, run in groupby(parts, lambda part: isinstance(part, _Varying)):
        if varying:
            yield from run
        else:
            yield _side_by_side(list(run))  # type: ignore[arg-type]


def _side_by_side(matrices: Sequence[Bytes]) -> Bytes:
    """Returns matrices as one; prefixes, which are the same in all rows, are written at once."""
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


def _join(parts: Sequence[Pieces], rows: int) -> EncodedRows:
    """Joins the pieces of each row."""
    if not parts:
        return EncodedRows(pa.array([b""] * rows, pa.binary()))
    merged = list(_merged(parts))
    size = sum(part.data.size if isinstance(part, _Varying) else part.size for part in merged)
    kind = pa.binary() if size < _WIDE else pa.large_binary()
    arrays = [_array(part, kind) for part in merged]
    return EncodedRows(pc.binary_join_element_wise(*arrays, pa.scalar(b"", kind)) if len(arrays) > 1 else arrays[0])


def _array(part: Pieces, kind: pa.DataType) -> pa.Array:
    if isinstance(part, _Varying):
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
