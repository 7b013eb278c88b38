"""Rows of a Parquet file, and how columns of any Arrow type become those of a record.

    footer ─► schema          row groups ─► packed or cut ─► ranges of rows ─► batches ─► fit ─► records, bad rows

| in the file                       | in the record                                     |
|-----------------------------------|---------------------------------------------------|
| integers, durations               | int64; a uint64 beyond it is a bad row            |
| floats, decimals                  | float32, float64; nan, inf and more than float32 can hold are bad rows |
| strings, bytes, dictionaries      | string (checked to be UTF-8), binary, the dictionary's values |
| dates, times, timestamps          | ISO 8601 strings, such as 2024-02-29T12:00:00.5Z; with a zone they are in UTC |
| lists of those                    | lists; a missing value inside one is a bad row    |
| structs of those                  | a column a child, `parent.child`                  |
| a column of nothing but nulls     | string, all missing                               |

Columns that the schema does not name are left unread, as is the unnamed index that pandas stores
(`__index_level_0__`). Columns that the file does not have are missing values.

Damage is found as far as the format shows it: Arrow 10 neither writes nor compares checksums of pages, so a value that
was altered in place stays unseen. Pages are decoded in a process of their own, which a damaged file may end.
"""

import atexit
import contextlib
import itertools
import json
import multiprocessing
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.errors import BadInput, PenstockError
from components.ingest.rows import RAW_LIMIT, BadRow, Range, RowBatch
from components.ingest.sources import printable

Reasons = dict[int, str]  # row of a batch -> why it is bad

_BATCH_ROWS = 8192
_BATCH_BYTES = 8 << 20  # rows may hold images: then fewer make a batch
_BUFFER_BYTES = 1 << 16  # a column; without it whole column chunks are read, and 5x slower (measured)
_MAX_CUTS = 8  # of a row group: a piece has to decode all that stands before it
_READY, _BATCH, _REFUSED = b"r", b"b", b"!"  # first bytes of what a decoder says
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_FLATTEN = "store it as columns of their own, for example with pandas.json_normalize"


class ParquetRows:
    """Reads Parquet files."""

    suffixes: tuple[str, ...] = (".parquet", ".pq")

    def schema(self, path: Path) -> pa.Schema:
        """Returns the columns as records will hold them, from the footer alone."""
        with _opened(path) as file:
            return pa.schema(_fields(path, file.schema_arrow))

    def divide(self, path: Path, relative: str, target: int) -> list[Range]:
        """Packs small row groups together and cuts large ones, at most eightfold."""
        with _opened(path) as file:
            groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
            pieces = [piece for group in groups for piece in _cut(group.num_rows, group.total_byte_size, target)]
        return _pack(pieces, relative, target)

    def read(self, path: Path, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads the rows of a range, whatever row groups they stand in."""
        number = part.start
        for batch in _decoded(path, part, schema):
            yield _row_batch(batch, number, schema, path)
            number += batch.num_rows
        if number != part.stop:
            raise BadInput(f"{printable(str(path))}: ends at row {number:,}, its footer promises {part.stop:,}")


SOURCE = ParquetRows()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Opens a file; whatever is wrong with it becomes one sentence that names it."""
    try:
        # Not by its path: Arrow takes only names that are UTF-8.
        with pa.OSFile(os.fsencode(path)) as raw, pq.ParquetFile(raw, buffer_size=_BUFFER_BYTES) as file:
            _check_counts(file)
            if not file.metadata.num_rows:
                raise BadInput(f"{printable(str(path))}: 0 examples in it; remove it or write it again")
            yield file
    except (pa.ArrowException, OSError, IndexError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(
            f"{printable(str(path))}: cannot be read as Parquet: {reason}; it may be damaged: write it again"
        ) from error


def _check_counts(file: pq.ParquetFile) -> None:
    """Compares all counts of rows in the footer: a reader trusts the one it meets, and rows would be lost unseen."""
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    if sum(group.num_rows for group in groups) != file.metadata.num_rows:
        raise pa.ArrowInvalid("the footer's counts of rows differ")
    flat = [index for index in range(file.metadata.num_columns) if not file.schema.column(index).max_repetition_level]
    for group, index in itertools.product(groups, flat):
        if group.column(index).num_values != group.num_rows:
            raise pa.ArrowInvalid("the footer's counts of rows and of values differ")


def _fields(path: Path, found: pa.Schema) -> list[pa.Field]:
    fields = [pa.field(name, _kind(path, name, kind)) for name, kind in _flat(found)]
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"{printable(str(path))}: several columns are called '{twice[0]}'; rename all but one")
    return fields


def _flat(found: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Returns names and types with the children of structs in their parent's place."""
    flat: list[tuple[str, pa.DataType]] = []
    for field in found:
        if pa.types.is_struct(field.type):
            flat += [(f"{field.name}.{child.name}", child.type) for child in field.type]
        elif not _PANDAS_INDEX.fullmatch(field.name):
            flat.append((field.name, field.type))
    return flat


def _kind(path: Path, name: str, kind: pa.DataType) -> pa.DataType:
    known = _value_kind(kind.value_type) if _is_list(kind) else _value_kind(kind)
    if known is None:
        raise BadInput(f"{printable(str(path))}: column '{name}' is {kind}, too deep for a record; {_FLATTEN}")
    return pa.list_(known) if _is_list(kind) else known


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


def _cut(rows: int, size: int, target: int) -> list[tuple[int, int]]:
    """Returns rows and bytes of the pieces of a row group."""
    count = max(1, min(-(-size // max(1, target)), _MAX_CUTS, rows))
    edges = [rows * index // count for index in range(count + 1)]
    return [(stop - start, size // count) for start, stop in itertools.pairwise(edges) if stop > start]


def _pack(pieces: list[tuple[int, int]], relative: str, target: int) -> list[Range]:
    ranges: list[Range] = []
    start = stop = size = 0
    for rows, more in pieces:
        if stop > start and size + more > target:
            ranges.append(Range(relative, start, stop, start + 1, size))
            start, size = stop, 0
        stop += rows
        size += more
    return [*ranges, Range(relative, start, stop, start + 1, size)]


class _Decoder:
    """A process that decodes for this one.

    A few of a thousand flipped bits do not make Arrow 10 raise: they end the process, or spoil its memory.
    """

    def __init__(self) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        try:
            self._pipe.recv_bytes()
        except EOFError:
            self.close()
            raise PenstockError(f"{sys.executable} could not be started to decode Parquet") from None

    def batches(self, path: Path, part: Range, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a range as they stand in the file."""
        request = {"path": str(path.absolute()), "start": part.start, "stop": part.stop, "names": names}
        try:
            self._pipe.send_bytes(json.dumps(request).encode())
            while reply := self._pipe.recv_bytes():
                yield _unpacked(reply)
        except (EOFError, ConnectionError, pa.ArrowException) as error:
            reason = str(error) or f"Arrow's process ended with {self._process.wait()}"
            raise BadInput(
                f"{printable(str(path))}: cannot be decoded: {reason}; it may be damaged: write it again"
            ) from None

    def alive(self) -> bool:
        """Whether it can be asked; one that waits may have been killed, which is no fault of the next file."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()


_IDLE: list[_Decoder] = []  # started once and kept: a start takes half a second
os.register_at_fork(after_in_child=_IDLE.clear)  # a pipe has one reader


@atexit.register
def _dismiss() -> None:
    while _IDLE:
        _IDLE.pop().close()


def _hire() -> _Decoder:
    while _IDLE:
        decoder = _IDLE.pop()
        if decoder.alive():
            return decoder
        decoder.close()
    return _Decoder()


def _decoded(path: Path, part: Range, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    decoder = _hire()
    try:
        yield from decoder.batches(path, part, schema.names)
    except BaseException:  # whoever reads may stop half way: the rest of the answer is still to come
        decoder.close()
        raise
    _IDLE.append(decoder)


def _unpacked(reply: bytes) -> pa.RecordBatch:
    kind, content = reply[:1], reply[1:]
    if kind == _REFUSED:
        raise BadInput(content.decode())
    batch = pa.ipc.open_stream(content).read_next_batch()
    for column in batch.columns:
        _validate(column)
    return batch


def _validate(column: pa.Array) -> None:
    """Looks at every offset before any is followed; what is not UTF-8 is a bad row, and told later."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise


def serve(descriptor: int) -> None:
    """Answers requests until the other end is closed: each batch in a message, then an empty one."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pipe = Connection(descriptor)
    pipe.send_bytes(_READY)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            for answer in _answers(**json.loads(pipe.recv_bytes())):
                pipe.send_bytes(answer)


def _answers(path: str, start: int, stop: int, names: list[str]) -> Iterator[bytes]:
    try:
        with _opened(Path(path)) as file:
            for batch in _batches(file, Range("", start, stop, start + 1, 0), names):
                yield _BATCH + _packed(batch)
    except BadInput as error:
        yield _REFUSED + str(error).encode()
    yield b""


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _batches(file: pq.ParquetFile, part: Range, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows from start to stop, at most `_BATCH_ROWS` at once."""
    edges = np.cumsum([0, *(file.metadata.row_group(index).num_rows for index in range(file.num_row_groups))])
    first = int(np.searchsorted(edges, part.start, side="right")) - 1
    groups = range(first, int(np.searchsorted(edges, part.stop, side="left")))
    number = int(edges[first])
    for batch in file.iter_batches(_batch_rows(file, groups), list(groups), _wanted(file, names)):
        start, stop = max(part.start - number, 0), min(part.stop - number, batch.num_rows)
        if stop > start:
            yield batch.slice(start, stop - start)
        number += batch.num_rows
        if number >= part.stop:
            return


def _batch_rows(file: pq.ParquetFile, groups: range) -> int:
    found = [file.metadata.row_group(index) for index in groups]
    row_bytes: int = sum(group.total_byte_size for group in found) // max(1, sum(group.num_rows for group in found))
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes)))


def _wanted(file: pq.ParquetFile, names: list[str]) -> list[str]:
    asked = set(names)
    wanted = [field.name for field in file.schema_arrow if asked & {name for name, _ in _flat(pa.schema([field]))}]
    # Without any column a batch has no rows to count.
    return wanted or [file.schema_arrow[0].name]


def _row_batch(batch: pa.RecordBatch, number: int, schema: pa.Schema, path: Path) -> RowBatch:
    def describe(row: int) -> tuple[str, bytes]:
        values = {name: _shown(column.slice(row, 1)) for name, column in zip(batch.schema.names, batch, strict=True)}
        return f"row {number + row + 1}", str(values).encode()

    return row_batch(_columns(batch), batch.num_rows, schema, describe, path)


def _shown(value: pa.Array) -> Any:
    """Returns a value for people, even one that Python cannot hold: text that is not UTF-8, dates beyond year 9999."""
    with contextlib.suppress(ValueError, OverflowError):
        return value[0].as_py()
    return value.cast(pa.binary())[0].as_py() if pa.types.is_string(value.type) else str(value)


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_struct(field.type):
            names = [f"{field.name}.{child.name}" for child in field.type]
            columns |= dict(zip(names, column.flatten(), strict=True))
        else:
            columns[field.name] = column
    return columns


def row_batch(
    columns: Mapping[str, pa.Array],
    rows: int,
    schema: pa.Schema,
    describe: Callable[[int], tuple[str, bytes]],
    path: Path,
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
        return RowBatch(batch)
    kept = np.ones(rows, np.bool_)
    kept[list(bad)] = False
    return RowBatch(batch.filter(pa.array(kept)), [_bad_row(describe(row), bad[row]) for row in sorted(bad)])


def _checked(column: pa.Array, field: pa.Field, path: Path, noun: str) -> tuple[pa.Array, Reasons]:
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
