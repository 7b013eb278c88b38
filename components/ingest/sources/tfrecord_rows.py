"""Records of tf.Example in a TFRecord file, plain or gzip, whoever wrote it.

    length (8) │ checksum of the length (4) │ data │ checksum of the data (4)
       └─► walked from header to header: where ranges are cut          └─► C++ decoder ─► columns, bad records

A record whose data is damaged is a bad row; the next one follows where its length says. If the length is damaged,
nothing after it can be found again, and the file is refused.

A feature is a single value if it is one in each of the first records, else a list; a feature that a record lacks is
missing. The schema comes from the first records; a feature that only a later one has ends the ingest, by name.
"""

import contextlib
import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from components.errors import BadInput
from components.ingest.sources.conversion import Reasons, row_batch
from components.ingest.sources.rows import Range, RowBatch
from components.ingest.sources.set_types import is_set_by_user
from components.records.quarantine import printable
from components.storage.paths import DataPath, open_whole

_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_FRAME = _HEADER.size + _FOOTER.size  # bytes of a record that are not data
_MAX_RECORD = (1 << 31) - 1  # bytes that protobuf can parse
_SAMPLE_RECORDS, _SAMPLE_BYTES = 1000, 64 << 20  # from which the schema is inferred
_BATCH_RECORDS, _BATCH_BYTES = 4096, 8 << 20
_GZIP = b"\x1f\x8b"
_FEATURES, _SEQUENCES = b"\x0a", b"\x12"  # tags of Example's only field, and of SequenceExample's other one
_MORE = 0x80  # the bit of a varint's byte that tells of another one


class TfRecordRows:
    """Reads TFRecord files of tf.Example."""

    suffixes: tuple[str, ...] = (".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrecords.gz")

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns all features of the first 1,000 records."""
        sample = [record.data for record in _sample(path)]
        fields: dict[str, pa.Field] = {}
        for batch in _decode_apart(path, sample):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                fields[name] = _union(fields.get(name), _field(name, column))
        if not fields:
            raise _bad(path, f"none of its first {len(sample):,} records is a tf.Example with features")
        return pa.schema([fields[name] for name in sorted(fields)])

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Cuts a plain file between records; a gzip file stays whole."""
        _check_not_empty(path)
        size = path.stat().st_size
        if _is_gzip(path):
            return [Range(relative, 0, size, 1, size)]
        ranges, start, first = [], 0, 1
        for number, end in enumerate(_ends(path, size), start=1):
            if end - start >= target or end == size:
                ranges.append(Range(relative, start, end, first, end - start))
                start, first = end, number + 1
        return ranges

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads the records of a range and compares all checksums."""
        decoder = _Decoder(path, _as_stored(path, schema))
        for records in _batches(_records(path, part)):
            yield _row_batch(path, records, decoder, schema)


SOURCE = TfRecordRows()


def _as_stored(path: DataPath, schema: pa.Schema) -> pa.Schema:
    """Returns the schema with the file's own types where the user has set others: what is decoded is cast later."""
    if not any(is_set_by_user(field) for field in schema):
        return schema
    own = SOURCE.schema(path)
    return pa.schema(
        [own.field(each.name) if is_set_by_user(each) and each.name in own.names else each for each in schema]
    )


class _Record(NamedTuple):  # made for every record, and three times as fast as a frozen dataclass
    offset: int  # of its header
    data: bytes
    intact: bool


def _bad(path: DataPath, what: str) -> BadInput:
    return BadInput(f"{printable(str(path))}: {what}")


def _check_not_empty(path: DataPath) -> None:
    with _explained(path):
        empty = not path.stat().st_size
    if empty:
        raise _bad(path, "0 examples in it; remove it or write it again")


@contextlib.contextmanager
def _explained(path: DataPath) -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError, zlib.error) as error:
        raise _bad(path, f"cannot be read: {error}; it may be damaged: write it again") from error


def _is_gzip(path: DataPath) -> bool:
    """Looks into the file, as names tell little; a length may begin with the same two bytes as gzip."""
    with _explained(path), path.open("rb") as file:
        head = file.read(_HEADER.size)
    return head.startswith(_GZIP) and _length(head) is None


def _length(header: bytes) -> int | None:
    """Returns the length of a record; None if it is damaged."""
    if len(header) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack(header)
    return int(length) if _masked(header[:8]) == checksum else None


def _masked(data: bytes) -> int:
    """Returns the checksum as TFRecord stores it: rotated and shifted, lest a checksum be taken of itself."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _checked_length(path: DataPath, header: bytes, offset: int) -> int:
    if len(header) < _HEADER.size:
        raise _cut_off(path, offset)
    length = _length(header)
    if length is None:
        reason = "damaged" if offset else "damaged, or this is no TFRecord file"
        raise _bad(path, f"the record header at byte offset {offset:,} is {reason}; nothing after it can be trusted")
    if length > _MAX_RECORD:
        raise _bad(path, f"the record at byte offset {offset:,} has {length:,} bytes; a tf.Example ends at 2 GB")
    return length


def _cut_off(path: DataPath, offset: int) -> BadInput:
    return _bad(path, f"is cut off within the record at byte offset {offset:,}; write it again")


def _ends(path: DataPath, size: int) -> Iterator[int]:
    """Yields where each record of a plain file ends, without reading its data."""
    offset = 0
    with _explained(path), path.open("rb") as file:
        while offset < size:
            length = _checked_length(path, file.read(_HEADER.size), offset)
            if offset + _FRAME + length > size:
                raise _cut_off(path, offset)
            offset += _FRAME + length
            file.seek(offset)
            yield offset


def _records(path: DataPath, part: Range) -> Iterator[_Record]:
    if _is_gzip(path):
        # Bound by nothing: how long it is unpacked is known at its end only.
        with _explained(path), open_whole(path) as file, gzip.open(file) as stream:
            yield from _framed(path, stream, 0, None)
        return
    with _explained(path), open_whole(path) as file:
        file.seek(part.start)
        yield from _framed(path, file, part.start, part.stop)


def _framed(path: DataPath, stream: IO[bytes] | gzip.GzipFile, start: int, stop: int | None) -> Iterator[_Record]:
    offset = start
    while offset != stop:
        header = stream.read(_HEADER.size)
        if not header and stop is None:
            return
        length = _checked_length(path, header, offset)
        framed = stream.read(length + _FOOTER.size)
        if len(framed) < length + _FOOTER.size:
            raise _cut_off(path, offset)
        data = framed[:length]
        yield _Record(offset, data, _masked(data) == _FOOTER.unpack_from(framed, length)[0])
        offset += _FRAME + length


def _sample(path: DataPath) -> list[_Record]:
    """Returns the first records that are not damaged."""
    _check_not_empty(path)
    sample: list[_Record] = []
    size = 0
    for record in _records(path, Range("", 0, path.stat().st_size, 1, 0)):
        if record.intact:
            sample.append(record)
            size += len(record.data)
        if len(sample) == _SAMPLE_RECORDS or size >= _SAMPLE_BYTES:
            break
    if not sample:
        raise _bad(path, "0 examples in it: every record is damaged")
    return sample


def _decode_apart(path: DataPath, sample: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Decodes records together, or one by one if they do not agree; what is no Example is told by `read`."""
    if any(_has_sequences(record) for record in sample):
        raise _bad(
            path, "holds tf.SequenceExample; expected tf.Example: store each sequence as a feature of several values"
        )
    try:
        yield ExamplesToRecordBatchDecoder().DecodeBatch(list(sample))
    except RuntimeError:
        for record in sample:
            with contextlib.suppress(RuntimeError):
                yield ExamplesToRecordBatchDecoder().DecodeBatch([record])


def _has_sequences(record: bytes) -> bool:
    """Whether a record has a SequenceExample's second field, which a parser of Examples leaves out in silence."""
    if record[:1] != _FEATURES:
        return record[:1] == _SEQUENCES
    size = next((at for at, byte in enumerate(record[1:11], start=1) if byte < _MORE), 0)
    length = sum((byte & ~_MORE) << 7 * place for place, byte in enumerate(record[1 : size + 1]))
    return record[size + 1 + length :][:1] == _SEQUENCES


def _field(name: str, column: pa.Array) -> pa.Field:
    if pa.types.is_null(column.type):
        return pa.field(name, pa.null())  # it is there without a value
    kind = _KINDS[column.type.value_type]
    single = pc.all(pc.equal(column.value_lengths(), 1)).as_py()
    return pa.field(name, kind if single else pa.list_(kind))


_KINDS = {pa.int64(): pa.int64(), pa.float32(): pa.float32(), pa.large_binary(): pa.binary()}


def _union(known: pa.Field | None, found: pa.Field) -> pa.Field:
    """Keeps the type that came first: records of another are bad rows."""
    if known is None or pa.types.is_null(known.type):
        return found
    same = pa.types.is_list(found.type) and found.type.value_type == known.type
    return found if same else known


class _Decoder:
    """tfx_bsl's decoder for one schema."""

    def __init__(self, path: DataPath, schema: pa.Schema) -> None:
        self._path, self._fields = path, list(schema)
        wanted = schema_pb2.Schema()
        for field in schema:
            wanted.feature.add(name=field.name, type=_feature_type(field.type))
        self._wanted = wanted.SerializeToString()
        self._decoder: Any = ExamplesToRecordBatchDecoder(self._wanted)

    def decode(self, records: list[bytes]) -> pa.RecordBatch:
        try:
            self._check_known(records)
            return self._decoder.DecodeBatch(records)
        except RuntimeError:
            # One that failed keeps half a batch, and mixes it into the next.
            self._decoder = ExamplesToRecordBatchDecoder(self._wanted)
            raise

    def _check_known(self, records: list[bytes]) -> None:
        """Refuses a feature that the schema does not hold: decoding by it would drop the feature in silence."""
        found = ExamplesToRecordBatchDecoder().DecodeBatch(records).schema.names
        if unknown := sorted(set(found) - {field.name for field in self._fields}):
            raise _bad(
                self._path,
                f"feature '{unknown[0]}' is not among those of the first records, which the schema was taken from; "
                "put a record that has it first",
            )

    def reason(self, record: bytes) -> str:
        """Returns why a record cannot be decoded; empty if it can."""
        try:
            self.decode([record])
        except RuntimeError:
            return _misfit(record, self._fields)
        return ""


def _misfit(record: bytes, fields: Sequence[pa.Field]) -> str:
    """Returns the first feature of another type; the decoder's own error names any, another one in each run."""
    try:
        found = ExamplesToRecordBatchDecoder().DecodeBatch([record])
    except RuntimeError:
        return "is no tf.Example"
    for field in fields:
        at = found.schema.get_field_index(field.name)
        held = found.schema.types[at] if at >= 0 else pa.null()
        if not pa.types.is_null(held) and _feature_type(held) != _feature_type(field.type):
            return f"feature '{field.name}' holds {_KINDS[held.value_type]}, expected {field.type}"
    return "cannot be decoded"


def _feature_type(kind: pa.DataType) -> "schema_pb2.FeatureType":
    value = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    if pa.types.is_integer(value) or pa.types.is_boolean(value):
        return schema_pb2.INT
    return schema_pb2.FLOAT if pa.types.is_floating(value) else schema_pb2.BYTES


def _batches(records: Iterator[_Record]) -> Iterator[list[_Record]]:
    batch: list[_Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.data)
        if len(batch) == _BATCH_RECORDS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _row_batch(path: DataPath, records: Sequence[_Record], decoder: _Decoder, schema: pa.Schema) -> RowBatch:
    def describe(row: int) -> tuple[str, bytes]:
        return f"byte offset {records[row].offset}", records[row].data

    decoded, bad = _decode(records, decoder)
    columns = {}
    for field, column in zip(schema, decoded.columns, strict=True):
        columns[field.name], reasons = _singled(column, field.type)
        bad = {**{row: f"feature '{field.name}' {reason}" for row, reason in reasons.items()}, **bad}
    return row_batch(columns, len(records), schema, describe, path, "feature", bad)


def _decode(records: Sequence[_Record], decoder: _Decoder) -> tuple[pa.RecordBatch, Reasons]:
    """Returns a row for each record, without any value where it is bad."""
    bad = {row: "its checksum does not match its data" for row, record in enumerate(records) if not record.intact}
    data = [record.data if record.intact else b"" for record in records]
    with contextlib.suppress(RuntimeError):
        return decoder.decode(data), bad
    for row, record in enumerate(data):
        if reason := decoder.reason(record):
            bad[row], data[row] = reason, b""
    return decoder.decode(data), bad


def _singled(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Reasons]:
    """Returns the first value of each list where the schema has single values; an empty list is a missing value."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return column, {}
    counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.cumsum(counts) - counts
    values = column.flatten().take(pa.array(starts, mask=counts == 0))
    several = np.flatnonzero(counts > 1).tolist()
    return values, {row: f"holds {counts[row]} values, expected one as in the first records" for row in several}
