"""A batch of columns to serialized tf.Examples, a column at a time: the same bytes as protobuf's deterministic mode.

    column ─► payloads (all rows at once) ─► prefix by payload length ─► scattered into one buffer ─► rows are slices

No record is touched in Python until its bytes are whole. A missing value leaves its key out. Lists of numbers or
strings are features of several values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_BYTES, _FLOATS, _INTS = b"\x0a", b"\x12", b"\x1a"  # tags of Feature's three lists
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"  # tags of length-delimited fields
_SMALL = 0x80


@dataclass(frozen=True)
class Encoded:
    """Serialized records, one after another in one buffer."""

    data: Bytes
    offsets: Ints  # where each record begins, and the end

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self) -> list[bytes]:
        """Returns each record's bytes."""
        whole, ends = self.data.tobytes(), self.offsets.tolist()
        return [whole[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True)
class _Pieces:
    """One piece of every row: row i's is data[offsets[i]:offsets[i + 1]]."""

    data: Bytes
    offsets: Ints

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)


def encode(batch: pa.RecordBatch) -> Encoded:
    """Serializes a batch of integer, floating, boolean, string or binary columns, or lists of them."""
    pieces: list[_Pieces] = []
    for key in sorted(batch.schema.names, key=str.encode):
        pieces += _entry(key.encode(), batch.column(batch.schema.get_field_index(key)))
    body = sum((piece.lengths for piece in pieces), np.zeros(batch.num_rows, np.int64))
    return _join([_by_length(lambda length: _FIELD_1 + varint(length), body), *pieces], batch.num_rows)


def varint(number: int) -> bytes:
    """Returns a number in protobuf's variable-length form."""
    encoded = bytearray()
    while number >= _SMALL:
        encoded.append(number & 0x7F | _SMALL)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _entry(key: bytes, column: pa.Array) -> list[_Pieces]:
    """Returns prefix and payload of one key of the map, both empty where the value is missing."""
    tag, payload = _payload(column)
    present = _present(column)
    prefixes = _by_length(lambda length: _prefix(key, tag, length), payload.lengths)
    if present.all():
        return [prefixes, payload]
    return [_only(prefixes, present), _only(payload, present)]


def _prefix(key: bytes, tag: bytes, length: int) -> bytes:
    """Returns all that stands before the payload: entry{1: key, 2: Feature{tag: List{…}}}."""
    name = _FIELD_1 + varint(len(key)) + key
    # Numbers are packed, so their list has one field around the payload; strings bring a field each of their own,
    # and an empty list has none.
    inner = b"" if tag == _BYTES or not length else _FIELD_1 + varint(length)
    values = tag + varint(len(inner) + length) + inner
    feature = _FIELD_2 + varint(len(values) + length) + values
    return _FIELD_1 + varint(len(name) + len(feature) + length) + name + feature


def _payload(column: pa.Array) -> tuple[bytes, _Pieces]:
    """Returns the list's tag, and each row's values as they stand in it."""
    values, rows = _flatten(column)
    if pa.types.is_floating(values.type):
        data = np.ascontiguousarray(values.to_numpy(zero_copy_only=False), dtype="<f4").view(np.uint8)
        return _FLOATS, _Pieces(data, rows * 4)
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        numbers = _varints(values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))
        return _INTS, _Pieces(numbers.data, numbers.offsets[rows])
    strings = _binary(values)
    heads = _by_length(lambda length: _FIELD_1 + varint(length), strings.lengths)
    fields = _join([heads, strings], len(values))
    return _BYTES, _Pieces(fields.data, fields.offsets[rows])


def _flatten(column: pa.Array) -> tuple[pa.Array, Ints]:
    """Returns the values of all rows in a row, and where each row's begin; a missing row has none."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        values = column.flatten()
    else:
        counts = _present(column).astype(np.int64)
        values = column.drop_null() if column.null_count else column
    return values, _offsets(counts)


def _present(column: pa.Array) -> npt.NDArray[np.bool_]:
    present: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return present


def _binary(values: pa.Array) -> _Pieces:
    whole = values.cast(pa.large_binary())
    _, offset_buffer, data_buffer = whole.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[whole.offset : whole.offset + len(whole) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return _Pieces(data[offsets[0] : offsets[-1]], offsets - offsets[0]) if len(whole) else _NOTHING


def _varints(numbers: npt.NDArray[np.uint64]) -> _Pieces:
    """Encodes all numbers at once, a byte position at a time."""
    lengths = np.ones(len(numbers), np.int64)
    rest = numbers >> np.uint64(7)
    while rest.any():
        lengths += rest > 0
        rest >>= np.uint64(7)
    offsets = _offsets(lengths)
    data = np.empty(offsets[-1], np.uint8)
    for position in range(int(lengths.max(initial=0))):
        longer = lengths > position
        low = (numbers[longer] >> np.uint64(7 * position)).astype(np.uint8) & 0x7F
        more = (lengths[longer] > position + 1).astype(np.uint8) << 7
        data[offsets[:-1][longer] + position] = low | more
    return _Pieces(data, offsets)


def _by_length(make: Callable[[int], bytes], lengths: Ints) -> _Pieces:
    """Returns for every row the bytes that `make` gives for its length; it is called once a distinct length."""
    distinct, which = np.unique(lengths, return_inverse=True)
    made = [make(int(length)) for length in distinct]
    sizes = np.array([len(piece) for piece in made], np.int64)
    table = np.zeros((len(made), int(sizes.max(initial=0))), np.uint8)
    for row, piece in enumerate(made):
        table[row, : len(piece)] = np.frombuffer(piece, np.uint8)
    chosen = table[which]
    if len(set(sizes.tolist())) > 1:
        chosen = chosen[np.arange(table.shape[1]) < sizes[which][:, None]]
    return _Pieces(chosen.reshape(-1), _offsets(sizes[which]))


def _only(pieces: _Pieces, present: npt.NDArray[np.bool_]) -> _Pieces:
    """Empties the pieces of rows that are not present."""
    lengths = pieces.lengths
    kept = np.repeat(present, lengths)
    return _Pieces(pieces.data[kept], _offsets(np.where(present, lengths, 0)))


def _join(pieces: Sequence[_Pieces], rows: int) -> Encoded:
    """Puts the pieces of each row one behind another."""
    total = sum((piece.lengths for piece in pieces), np.zeros(rows, np.int64))
    offsets = _offsets(total)
    data = np.empty(offsets[-1], np.uint8)
    place = offsets[:-1].copy()
    for piece in pieces:
        _scatter(data, place, piece)
        place += piece.lengths
    return Encoded(data, offsets)


def _scatter(data: Bytes, places: Ints, pieces: _Pieces) -> None:
    """Copies row i's piece to data[places[i]:]."""
    lengths = pieces.lengths
    if not len(pieces.data):
        return
    if len(pieces.data) > _LONG * len(lengths):
        # An index for every byte would cost more than a copy for every row.
        for place, (start, end) in zip(places.tolist(), pairwise(pieces.offsets.tolist()), strict=True):
            data[place : place + end - start] = pieces.data[start:end]
    elif (lengths == lengths[0]).all():
        data[places[:, None] + np.arange(lengths[0])] = pieces.data.reshape(len(lengths), -1)
    else:
        data[np.repeat(places - pieces.offsets[:-1], lengths) + np.arange(len(pieces.data))] = pieces.data


def _offsets(lengths: npt.NDArray[np.integer[Any]]) -> Ints:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


_LONG = 128  # mean bytes of a piece above which it is copied by row
_NOTHING = _Pieces(np.empty(0, np.uint8), np.zeros(1, np.int64))
