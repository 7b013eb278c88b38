"""Converts columns of any Arrow type to those of a record; rows that cannot be converted are bad rows with a reason.

    columns of a file ─► fit to the schema ─┬─► rows that can become records
                                            └─► bad rows: position, reason and raw bytes

| in the file                       | in the record                                     |
|-----------------------------------|---------------------------------------------------|
| integers, durations               | int64; a larger uint64 is a bad row               |
| floats, decimals                  | float32, float64; nan, inf and values beyond float32 are bad rows |
| strings, bytes, dictionaries      | string (checked to be UTF-8), binary, the dictionary's values |
| dates, times, timestamps          | ISO 8601 strings, such as 2024-02-29T12:00:00.5Z; in UTC if they have a zone |
| lists of those                    | lists; a missing value inside a list is a bad row |
| a column of nulls                 | string, all missing                               |
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.ingest.sources.rows import BadRow, RowBatch, bad_file
from components.storage.paths import DataPath

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

Flags = npt.NDArray[np.bool_]
Reasons = dict[int, str]  # row of a batch -> why it is bad

OVERFLOW = 3.4028235677973366e38  # the smallest number that is infinite as float32, the only floats of a tf.Example
LABEL = b"label"  # in the metadata of a field: nan and infinity are kept, and `ingest.unlabelled` applies to them
_SHOWN = 60  # characters of a value in a reason


def is_list(kind: pa.DataType) -> bool:
    """Whether a column has several values per row."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds one string per row."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def value_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of single values: that of a column, or of the values in its lists."""
    return kind.value_type if is_list(kind) else kind


def feature_type(kind: pa.DataType) -> "schema_pb2.FeatureType":
    """Returns the type of a column in a schema of TensorFlow Metadata."""
    from tensorflow_metadata.proto.v0 import schema_pb2

    single = value_type(kind)
    if pa.types.is_floating(single):
        return schema_pb2.FLOAT
    return schema_pb2.INT if pa.types.is_integer(single) or pa.types.is_boolean(single) else schema_pb2.BYTES


def is_label(field: pa.Field) -> bool:
    """Whether a column is read as the label."""
    return LABEL in (field.metadata or {})


def out_of_range(column: pa.Array) -> Flags:
    """Returns which floats of a column are nan or infinite in a record, which holds float32; missing ones are not."""
    wrong: Flags = ~(np.abs(column.to_numpy(zero_copy_only=False)) < OVERFLOW)
    return wrong & ~_missing(column) if column.null_count else wrong


def shorten(value: str) -> str:
    """Returns a value for a reason, cut to 60 characters."""
    return value if len(value) <= _SHOWN else value[:_SHOWN] + "…"


def kind_in_record(kind: pa.DataType) -> pa.DataType | None:
    """Returns the type of a column in a record; None if it is nested too deep."""
    inner = _value_kind(value_type(kind))
    return pa.list_(inner) if inner is not None and is_list(kind) else inner


def _value_kind(kind: pa.DataType) -> pa.DataType | None:
    """Returns the type of a single value in a record; None if it is not single."""
    if pa.types.is_dictionary(kind):
        return _value_kind(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _value_kind(kind.storage_type)
    return next((ours for fits, ours in _KINDS if fits(kind)), None)


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_boolean, pa.bool_()),
    (pa.types.is_integer, pa.int64()),
    (pa.types.is_duration, pa.int64()),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_float32, pa.float32()),
    (pa.types.is_float64, pa.float64()),
    (pa.types.is_decimal, pa.float64()),
    (pa.types.is_binary, pa.binary()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_string, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_date, pa.string()),
    (pa.types.is_time, pa.string()),
    (pa.types.is_timestamp, pa.string()),
    (pa.types.is_null, pa.string()),
)


def row_batch(
    columns: Mapping[str, pa.Array],
    rows: int,
    schema: pa.Schema,
    describe: Callable[[int], tuple[str, bytes]],
    path: DataPath,
    noun: str = "column",
    known: Mapping[int, str] | None = None,
    first: int = 1,
) -> RowBatch:
    """Fits columns to a schema, and separates the rows that can become records from bad rows.

    Args:
        columns: arrays of equal length; a missing column is all null.
        rows: that length.
        schema: names and types of the batch to return.
        describe: returns position and raw bytes of a row.
        path: the file, for messages.
        noun: the word for a column in this format.
        known: rows that are known to be bad, with the reason.
        first: number of the first row in the file, from 1.
    """
    bad = dict(known or {})
    arrays = []
    for field in schema:
        array, reasons = _checked(columns.get(field.name, pa.nulls(rows)), field, path, noun)
        bad = {**reasons, **bad}
        arrays.append(array)
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not bad:
        return RowBatch(batch, describe=describe, numbers=lambda: np.arange(first, first + rows))
    good = np.delete(np.arange(rows), list(bad))
    bad_rows = [BadRow.of(describe(row), bad[row]) for row in sorted(bad)]
    return RowBatch(
        batch.take(pa.array(good)), bad_rows, lambda row: describe(int(good[row])), numbers=lambda: first + good
    )


def _checked(column: pa.Array, field: pa.Field, path: DataPath, noun: str) -> tuple[pa.Array, Reasons]:
    try:
        array, misfits = fit(column, field.type)
    except pa.ArrowNotImplementedError:
        raise bad_file(
            path,
            f"{noun} '{field.name}' is {column.type}, which cannot become {field.type} as in the schema; "
            "all files of a data set need the same types",
        ) from None
    reasons = {**({} if is_label(field) else _not_finite(array)), **misfits}
    return array, {row: f"{noun} '{field.name}' {reason}" for row, reason in reasons.items()}


def fit(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Reasons]:
    """Returns a column as `kind`, with null for values that cannot be converted, and the reasons."""
    with contextlib.suppress(pa.ArrowInvalid):
        return _converted(column, kind), {}
    # Arrow reports one value at most, so batches with a bad value are converted row by row.
    pieces, bad = [], {}
    for row in range(len(column)):
        piece, reason = _fit_one(column.slice(row, 1), kind)
        pieces.append(piece)
        if reason:
            bad[row] = reason
    return pa.concat_arrays(pieces), bad


def _fit_one(value: pa.Array, kind: pa.DataType) -> tuple[pa.Array, str]:
    try:
        return _converted(value, kind), ""
    except pa.ArrowInvalid as error:
        return pa.nulls(1, kind), f"cannot be {kind}: {error}"


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if is_list(column.type) and is_list(kind):
        return _relist(column, kind)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
        column = _iso(column)
    elif pa.types.is_float16(column.type):
        column = pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32), mask=_missing(column))
    if pa.types.is_string(kind) and not pa.types.is_null(column.type) and _value_kind(column.type) == kind:
        column = column.cast(pa.binary())  # readers assume that a string is UTF-8; the cast back checks it
    if pa.types.is_binary(column.type) and _value_kind(kind) not in {pa.binary(), pa.string()}:
        column = column.cast(pa.string())  # Arrow parses numbers from strings only
    return column if column.type == kind else column.cast(kind)


def _relist(column: pa.Array, kind: pa.DataType) -> pa.Array:
    values = column.flatten()
    if values.null_count:
        raise pa.ArrowInvalid("a value inside the list is missing")
    missing = _missing(column)
    if pa.types.is_fixed_size_list(column.type):
        counts = np.where(missing, 0, column.type.list_size)
    else:
        counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    # A null offset makes a missing list.
    mask = np.append(missing, False)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=mask), _converted(values, kind.value_type)).cast(kind)


def _iso(column: pa.Array) -> pa.Array:
    """Returns ISO 8601 strings without trailing zeros of the fraction, so that all units give the same string."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        # By view: Arrow's own conversion reads the time zone from the system's database, which may be missing.
        text = column.view(pa.timestamp(kind.unit)).cast(pa.string())
        text = pc.replace_substring(text, " ", "T", max_replacements=1)
    elif pa.types.is_date64(kind):
        text = column.cast(pa.date32()).cast(pa.string())
    else:
        text = column.cast(pa.string())
    if pc.any(pc.starts_with(text, "<")).as_py():
        raise pa.ArrowInvalid("date outside the years that can be written")
    if not pa.types.is_date(kind) and "[s" not in str(
        kind
    ):  # whole seconds have no fraction; time types have no `unit` attribute
        text = pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")
    return pc.binary_join_element_wise(text, "Z", "") if pa.types.is_timestamp(kind) and kind.tz else text


def _missing(column: pa.Array) -> Flags:
    missing: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return missing


def _not_finite(column: pa.Array) -> Reasons:
    """Returns the rows with a number that is nan or infinite in a record."""
    values = column.flatten() if is_list(column.type) else column
    if not pa.types.is_floating(values.type):
        return {}
    places = np.flatnonzero(out_of_range(values))
    return _first_of_rows(column, values.to_numpy(zero_copy_only=False), places) if len(places) else {}


def _first_of_rows(column: pa.Array, numbers: npt.NDArray[np.floating[Any]], places: npt.NDArray[np.intp]) -> Reasons:
    """Returns a reason with the first such number of each row."""
    if not is_list(column.type):
        return {int(place): found(numbers[place]) for place in places}
    ends = np.cumsum(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    rows = np.searchsorted(ends, places, side="right")
    reasons: Reasons = {}
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        start = int(ends[row - 1]) if row else 0
        reasons.setdefault(row, f"{found(numbers[place])} at value {place - start + 1} of its list")
    return reasons


def found(number: np.inexact[Any]) -> str:
    """Returns what is wrong with a number that a record cannot hold."""
    return f"holds {number:g}" + (", beyond the range of float32" if np.isfinite(number) else "")
