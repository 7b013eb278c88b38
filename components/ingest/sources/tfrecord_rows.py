"""Reads records of tf.Example from TFRecord files, plain or gzip, of any writer.

    header │ data │ footer ─► from header to header: where ranges are cut
                          └─► C++ decoder ─► columns, bad records

A record with damaged data is a bad row; the next record starts where its length says. After a damaged header nothing
can be located, and the file is rejected.

The schema comes from the first records: a feature with one value in each of them is a single value, any other is a
list. A feature that a record lacks is missing. A feature that only later records have stops the ingest, by name.
"""

import contextlib
import gzip
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from components.ingest.sources.conversion import Reasons, feature_type, is_list, row_batch
from components.ingest.sources.rows import LimitedRows, Range, RowBatch, bad_file
from components.ingest.sources.set_types import is_set_by_user
from components.records.tfrecord.framing import HEADER, length_of
from components.records.tfrecord.walk import StoredRecord, explained, read_records, record_ends
from components.storage.paths import DataPath, open_whole

_SAMPLE_RECORDS, _SAMPLE_BYTES = 1000, 64 << 20  # from which the schema is inferred
_BATCH_RECORDS, _BATCH_BYTES = 4096, 8 << 20
_GZIP = b"\x1f\x8b"
_FEATURES, _SEQUENCES = b"\x0a", b"\x12"  # tags of the only field of Example, and of the second one of SequenceExample
_MORE = 0x80  # the bit of a varint's byte that says another byte follows


class TfRecordRows(LimitedRows):
    """Reads TFRecord files of tf.Example."""

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the features of the first 1,000 records."""
        sample = [record.data for record in _sample(path, self.max_row)]
        fields: dict[str, pa.Field] = {}
        for batch in _decode_sample(path, sample):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                fields[name] = _union(fields.get(name), _field(name, column))
        if not fields:
            raise bad_file(path, f"none of its first {len(sample):,} records is a tf.Example with features")
        return pa.schema([fields[name] for name in sorted(fields)])

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Divides a plain file between records; a gzip file is one range."""
        _check_not_empty(path)
        size = path.stat().st_size
        if size <= target or _is_gzip(path):
            return [Range(relative, 0, size, 1, size)]
        ranges, start, first = [], 0, 1
        with explained(path), path.open("rb") as file:
            for number, end in enumerate(record_ends(file, size), start=1):
                if end - start >= target or end == size:
                    ranges.append(Range(relative, start, end, first, end - start))
                    start, first = end, number + 1
        return ranges

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads the records of a range and verifies all checksums."""
        decoder = _Decoder(path, self._as_stored(path, schema), self.only_schema)
        first = part.first
        for records in _batches(_records(path, part, self.max_row)):
            yield _row_batch(path, records, decoder, schema, first)
            first += len(records)

    def _as_stored(self, path: DataPath, schema: pa.Schema) -> pa.Schema:
        """Returns the schema with the file's own types where the user has set others: values are cast afterwards."""
        if not any(is_set_by_user(field) for field in schema):
            return schema
        own = self.schema(path)
        return pa.schema(
            [own.field(each.name) if is_set_by_user(each) and each.name in own.names else each for each in schema]
        )


SOURCE = TfRecordRows()


def _check_not_empty(path: DataPath) -> None:
    with explained(path):
        empty = not path.stat().st_size
    if empty:
        raise bad_file(path, "0 examples in it; remove it or write it again")


def _is_gzip(path: DataPath) -> bool:
    """Whether a file is compressed, by its first bytes: names are not reliable, and a length may start like gzip."""
    with explained(path), path.open("rb") as file:
        head = file.read(HEADER.size)
    return head.startswith(_GZIP) and length_of(head) is None


def _records(path: DataPath, part: Range, most: int) -> Iterator[StoredRecord]:
    if _is_gzip(path):
        # Without an end: the decompressed size is not known before.
        with explained(path), open_whole(path) as file, gzip.open(file) as stream:
            yield from read_records(stream, 0, None, most)
        return
    with explained(path), open_whole(path) as file:
        file.seek(part.start)
        yield from read_records(file, part.start, part.stop, most)


def _sample(path: DataPath, most: int) -> list[StoredRecord]:
    """Returns the first intact records."""
    _check_not_empty(path)
    sample: list[StoredRecord] = []
    size = 0
    for record in _records(path, Range("", 0, path.stat().st_size, 1, 0), most):
        if record.intact:
            sample.append(record)
            size += len(record.data)
        if len(sample) == _SAMPLE_RECORDS or size >= _SAMPLE_BYTES:
            break
    if not sample:
        raise bad_file(path, "0 examples in it: every record is damaged")
    return sample


def _decode_sample(path: DataPath, sample: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Decodes records in one batch, or one by one if their types differ; `read` reports those that are no Example."""
    if any(_has_sequences(record) for record in sample):
        raise bad_file(
            path,
            "contains tf.SequenceExample; expected tf.Example: store a sequence as a feature with several values",
        )
    try:
        yield ExamplesToRecordBatchDecoder().DecodeBatch(list(sample))
    except RuntimeError:
        for record in sample:
            with contextlib.suppress(RuntimeError):
                yield ExamplesToRecordBatchDecoder().DecodeBatch([record])


def _has_sequences(record: bytes) -> bool:
    """Whether a record has the second field of SequenceExample, which a parser of Example drops silently."""
    if record[:1] != _FEATURES:
        return record[:1] == _SEQUENCES
    size = next((at for at, byte in enumerate(record[1:11], start=1) if byte < _MORE), 0)
    length = sum((byte & ~_MORE) << 7 * place for place, byte in enumerate(record[1 : size + 1]))
    return record[size + 1 + length :][:1] == _SEQUENCES


def _field(name: str, column: pa.Array) -> pa.Field:
    if pa.types.is_null(column.type):
        return pa.field(name, pa.null())  # present without a value
    kind = _KINDS[column.type.value_type]
    single = pc.all(pc.equal(column.value_lengths(), 1)).as_py()
    return pa.field(name, kind if single else pa.list_(kind))


_KINDS = {pa.int64(): pa.int64(), pa.float32(): pa.float32(), pa.large_binary(): pa.binary()}


def _union(known: pa.Field | None, found: pa.Field) -> pa.Field:
    """Returns the first type that was found: records of another type are bad rows."""
    if known is None or pa.types.is_null(known.type):
        return found
    same = pa.types.is_list(found.type) and found.type.value_type == known.type
    return found if same else known


class _Decoder:
    """The decoder of tfx_bsl for one schema."""

    def __init__(self, path: DataPath, schema: pa.Schema, only_schema: bool) -> None:
        self._path, self._fields, self._only_schema = path, list(schema), only_schema
        wanted = schema_pb2.Schema()
        for field in schema:
            wanted.feature.add(name=field.name, type=feature_type(field.type))
        self._wanted = wanted.SerializeToString()
        self._decoder: Any = ExamplesToRecordBatchDecoder(self._wanted)

    def decode(self, records: list[bytes]) -> pa.RecordBatch:
        try:
            if not self._only_schema:
                self._check_known(records)
            return self._decoder.DecodeBatch(records)
        except RuntimeError:
            # A decoder that failed keeps half a batch, and mixes it into the next one.
            self._decoder = ExamplesToRecordBatchDecoder(self._wanted)
            raise

    def _check_known(self, records: list[bytes]) -> None:
        """Rejects a feature that the schema lacks: the decoder would drop it silently."""
        found = ExamplesToRecordBatchDecoder().DecodeBatch(records).schema.names
        if unknown := sorted(set(found) - {field.name for field in self._fields}):
            raise bad_file(
                self._path,
                f"feature '{unknown[0]}' is in none of the first records, from which the schema is inferred; "
                "move a record with this feature to the front",
            )

    def reason(self, record: bytes) -> str:
        """Returns why a record cannot be decoded; empty if it can."""
        try:
            self.decode([record])
        except RuntimeError:
            return _misfit(record, self._fields)
        return ""


def _misfit(record: bytes, fields: Sequence[pa.Field]) -> str:
    """Returns the first feature with a wrong type; the decoder's own error names a different one in each run."""
    try:
        found = ExamplesToRecordBatchDecoder().DecodeBatch([record])
    except RuntimeError:
        return "is not a tf.Example"
    for field in fields:
        at = found.schema.get_field_index(field.name)
        found_type = found.schema.types[at] if at >= 0 else pa.null()
        if not pa.types.is_null(found_type) and feature_type(found_type) != feature_type(field.type):
            return f"feature '{field.name}' has type {_KINDS[found_type.value_type]}, expected {field.type}"
    return "cannot be decoded"


def _batches(records: Iterator[StoredRecord]) -> Iterator[list[StoredRecord]]:
    batch: list[StoredRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.data)
        if len(batch) == _BATCH_RECORDS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _row_batch(
    path: DataPath, records: Sequence[StoredRecord], decoder: _Decoder, schema: pa.Schema, first: int
) -> RowBatch:
    def describe(row: int) -> tuple[str, bytes]:
        return f"byte offset {records[row].offset}", records[row].data

    decoded, bad = _decode(records, decoder)
    columns = {}
    for field, column in zip(schema, decoded.columns, strict=True):
        columns[field.name], reasons = _single_values(column, field.type)
        bad = {**{row: f"feature '{field.name}' {reason}" for row, reason in reasons.items()}, **bad}
    return row_batch(columns, len(records), schema, describe, path, "feature", bad, first)


def _decode(records: Sequence[StoredRecord], decoder: _Decoder) -> tuple[pa.RecordBatch, Reasons]:
    """Returns one row per record, without values where the record is bad."""
    bad = {row: "its checksum does not match its data" for row, record in enumerate(records) if not record.intact}
    data = [record.data if record.intact else b"" for record in records]
    with contextlib.suppress(RuntimeError):
        return decoder.decode(data), bad
    for row, record in enumerate(data):
        if reason := decoder.reason(record):
            bad[row], data[row] = reason, b""
    return decoder.decode(data), bad


def _single_values(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Reasons]:
    """Returns the first value of each list if the schema has single values; an empty list is a missing value."""
    if is_list(kind):
        return column, {}
    counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.cumsum(counts) - counts
    values = column.flatten().take(pa.array(starts, mask=counts == 0))
    several = np.flatnonzero(counts > 1).tolist()
    return values, {row: f"has {counts[row]} values, expected one as in the first records" for row in several}
