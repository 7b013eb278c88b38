"""How columns of any Arrow type become those of a record: converted where that can be, else bad rows with a reason.

    columns of a file ─► fit to the schema ─┬─► rows that can become records
                                            └─► bad rows: where, why, and what stood there

| in the file                       | in the record                                     |
|-----------------------------------|---------------------------------------------------|
| integers, durations               | int64; a uint64 beyond it is a bad row            |
| floats, decimals                  | float32, float64; nan, inf and more than float32 can hold are bad rows |
| strings, bytes, dictionaries      | string (checked to be UTF-8), binary, the dictionary's values |
| dates, times, timestamps          | ISO 8601 strings, such as 2024-02-29T12:00:00.5Z; with a zone they are in UTC |
| lists of those                    | lists; a missing value inside one is a bad row    |
| a column of nothing but nulls     | string, all missing                               |
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import BadInput
from components.ingest.sources.rows import BadRow, RowBatch
from components.records.quarantine import RAW_LIMIT, printable
from components.storage.paths import DataPath

Reasons = dict[int, str]  # row of a batch -> why it is bad


def kind_in_record(kind: pa.DataType) -> pa.DataType | None:
    """Returns what a column of this type is in a record; None where it is too deep for one."""
    if not _is_list(kind):
        return _value_kind(kind)
    inner = _value_kind(kind.value_type)
    return None if inner is None else pa.list_(inner)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _value_kind(kind: pa.DataType) -> pa.DataType | None:
    """Returns what a single value is in a record; None where it is not single."""
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
) -> RowBatch:
    """Fits columns to a schema and parts the rows that can become records from those that cannot.

    Args:
        columns: arrays of one length; one that is missing is all null.
        rows: that length.
        schema: names and types of the batch to make.
        describe: returns a row's position and raw bytes.
        path: the file, for messages.
        noun: what a column is called in this format.
        known: rows that are bad already, and why.
    """
    bad = dict(known or {})
    arrays = []
    for field in schema:
        array, reasons = _checked(columns.get(field.name, pa.nulls(rows)), field, path, noun)
        bad = {**reasons, **bad}
        arrays.append(array)
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not bad:
        return RowBatch(batch, describe=describe)
    good = np.delete(np.arange(rows), list(bad))
    told = [_bad_row(describe(row), bad[row]) for row in sorted(bad)]
    return RowBatch(batch.take(pa.array(good)), told, lambda row: describe(int(good[row])))


def _checked(column: pa.Array, field: pa.Field, path: DataPath, noun: str) -> tuple[pa.Array, Reasons]:
    try:
        array, misfits = fit(column, field.type)
    except pa.ArrowNotImplementedError:
        raise BadInput(
            f"{printable(str(path))}: {noun} '{field.name}' is {column.type}, which cannot become {field.type}, "
            "as the schema has it; are all files of one kind?"
        ) from None
    reasons = {**_not_finite(array), **misfits}
    return array, {row: f"{noun} '{field.name}' {reason}" for row, reason in reasons.items()}


def _bad_row(described: tuple[str, bytes], reason: str) -> BadRow:
    position, raw = described
    return BadRow(position, reason, raw[:RAW_LIMIT])


def fit(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Reasons]:
    """Returns a column as `kind`, null where that cannot be, and why not."""
    with contextlib.suppress(pa.ArrowInvalid):
        return _converted(column, kind), {}
    # Arrow names one value at most; row by row all are found. Only batches with a bad value pay for it.
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
    if _is_list(column.type) and _is_list(kind):
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
        column = column.cast(pa.binary())  # readers trust that a string is UTF-8; the cast back does not
    if pa.types.is_binary(column.type) and _value_kind(kind) not in {pa.binary(), pa.string()}:
        column = column.cast(pa.string())  # text that holds numbers: Arrow reads them from strings only
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
    # A list without an offset is a missing one.
    mask = np.append(missing, False)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=mask), _converted(values, kind.value_type)).cast(kind)


def _iso(column: pa.Array) -> pa.Array:
    """Returns ISO 8601 strings, without zeros at the end of the fraction: any unit gives the same."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        # By view, as Arrow's own conversion looks the zone up in the system's database, which may not be there.
        text = column.view(pa.timestamp(kind.unit)).cast(pa.string())
        text = pc.replace_substring(text, " ", "T", max_replacements=1)
    elif pa.types.is_date64(kind):
        text = column.cast(pa.date32()).cast(pa.string())
    else:
        text = column.cast(pa.string())
    if pc.any(pc.starts_with(text, "<")).as_py():
        raise pa.ArrowInvalid("a date beyond the years that can be written")
    if not pa.types.is_date(kind) and "[s" not in str(kind):  # whole seconds have no fraction; times no `unit` to ask
        text = pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")
    return pc.binary_join_element_wise(text, "Z", "") if pa.types.is_timestamp(kind) and kind.tz else text


def _missing(column: pa.Array) -> npt.NDArray[np.bool_]:
    missing: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return missing


def _not_finite(column: pa.Array) -> Reasons:
    """Returns the rows with a number that would be nan or infinite in a record, which holds float32."""
    values = column.flatten() if _is_list(column.type) else column
    if not pa.types.is_floating(values.type):
        return {}
    numbers = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        places = np.flatnonzero(~np.isfinite(numbers.astype(np.float32, copy=False)))
    if not len(places):
        return {}
    return _first_of_rows(column, numbers, places)


def _first_of_rows(column: pa.Array, numbers: npt.NDArray[np.floating[Any]], places: npt.NDArray[np.intp]) -> Reasons:
    if not _is_list(column.type):
        return {int(place): _found(numbers[place]) for place in places}
    ends = np.cumsum(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    rows = np.searchsorted(ends, places, side="right")
    reasons: Reasons = {}
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        start = int(ends[row - 1]) if row else 0
        reasons.setdefault(row, f"{_found(numbers[place])} at value {place - start + 1} of its list")
    return reasons


def _found(number: np.floating[Any]) -> str:
    return f"holds {number:g}" + (", more than float32 can" if np.isfinite(number) else "")
