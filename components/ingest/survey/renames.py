"""Rows whose columns are called as the task calls them, whatever the user does.

file: kind, photo ─► Renamed({"kind": "label"}) ─► batches: label, photo
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from components.errors import SettingsError
from components.ingest.sources.rows import Range, RowBatch, RowSource
from components.storage.paths import DataPath


@dataclass
class Renamed:
    """A source of rows with other names for some of its columns."""

    inner: RowSource
    names: Mapping[str, str]  # in the file -> in the record
    suffixes: tuple[str, ...] = ()  # files are found by those of the source itself

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the columns under their new names."""
        return rename(self.inner.schema(path), self.names)

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Cuts as the source does."""
        return self.inner.divide(path, relative, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads rows of a schema with the new names."""
        theirs = rename(schema, {new: old for old, new in self.names.items()})
        for batch in self.inner.read(path, part, theirs):
            columns = pa.RecordBatch.from_arrays(batch.columns.columns, schema=schema)
            yield replace(batch, columns=columns)


def rename(schema: pa.Schema, names: Mapping[str, str]) -> pa.Schema:
    """Returns the columns under their new names; two of one name are refused."""
    for old, new in names.items():
        if old in schema.names and new != old and new in schema.names:
            raise SettingsError(
                f"column {old!r} is to be the {new!r} of the record, and there is a column {new!r} besides: "
                f"choose it with --set ingest.{new}={new}, or rename one of them"
            )
    return pa.schema([field.with_name(names.get(field.name, field.name)) for field in schema], schema.metadata)
