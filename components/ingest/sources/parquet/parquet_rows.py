"""Rows of Parquet files.

    footer ─► schema      row groups ─► packed or divided ─► ranges of rows ─► batches ─► converted ─► rows, bad rows

`conversion.py` lists what each type becomes. A struct of values becomes one column per child, `parent.child`.

Columns that the schema does not name are not read, nor is the unnamed index that pandas stores (`__index_level_0__`).
Columns that the file does not have are missing values.

Damage is found as far as the format shows it: Arrow 10 neither writes nor compares checksums of pages, so a value that
was changed in place is not noticed. Pages are decoded in a worker process (`parquet_decoder.py`), which a damaged file
may crash.
"""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from components.ingest.sources import conversion
from components.ingest.sources.parquet import parquet_decoder, parquet_file
from components.ingest.sources.rows import LimitedRows, Range, RowBatch, bad_file
from components.storage.paths import DataPath

_MAX_PIECES = 8  # per row group: reading a piece decodes all rows before it
_FLATTEN = "store it as separate columns, for example with pandas.json_normalize"


class ParquetRows(LimitedRows):
    """Reads Parquet files."""

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the columns as records will hold them, from the footer alone."""
        with parquet_file.opened(path) as file:
            return pa.schema(_fields(path, file.schema_arrow))

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Packs small row groups together, and divides large ones into at most eight pieces."""
        with parquet_file.opened(path) as file:
            groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
            pieces = [piece for group in groups for piece in _cut(group.num_rows, group.total_byte_size, target)]
        parquet_decoder.start()
        return _pack(pieces, relative, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads the rows of a range, whatever row groups they are in."""
        number = part.start
        for batch in parquet_decoder.decode(path, part, schema.names, self.max_row):
            yield _row_batch(batch, number, schema, path)
            number += batch.num_rows
        if number != part.stop:
            raise bad_file(path, f"ends at row {number:,}, its footer promises {part.stop:,}")


SOURCE = ParquetRows()


def _fields(path: DataPath, found: pa.Schema) -> list[pa.Field]:
    fields = [pa.field(name, _kind(path, name, kind)) for name, kind in parquet_file.flat_columns(found)]
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise bad_file(path, f"several columns have the name '{twice[0]}'; rename all but one")
    return fields


def _kind(path: DataPath, name: str, kind: pa.DataType) -> pa.DataType:
    known = conversion.kind_in_record(kind)
    if known is None:
        raise bad_file(path, f"column '{name}' is {kind}, too deeply nested for a record; {_FLATTEN}")
    return known


def _cut(rows: int, size: int, target: int) -> list[tuple[int, int]]:
    """Returns rows and bytes of each piece of a row group."""
    count = max(1, min(-(-size // max(1, target)), _MAX_PIECES, rows))
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


def _row_batch(batch: pa.RecordBatch, number: int, schema: pa.Schema, path: DataPath) -> RowBatch:
    def describe(row: int) -> tuple[str, bytes]:
        values = {name: _shown(column.slice(row, 1)) for name, column in zip(batch.schema.names, batch, strict=True)}
        return f"row {number + row + 1}", str(values).encode()

    return conversion.row_batch(_columns(batch), batch.num_rows, schema, describe, path, first=number + 1)


def _shown(value: pa.Array) -> Any:
    """Returns a value for messages, even one that Python cannot hold: text that is not UTF-8, dates after 9999."""
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
