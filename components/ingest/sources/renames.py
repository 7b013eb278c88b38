"""A row source with other column names: those that the task uses instead of the user's.

file: kind, photo ─► RenamedRows({"kind": "label"}) ─► batches: label, photo
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from components.errors import SettingsError
from components.ingest.sources.rows import Range, RowBatch, RowSource
from components.storage.paths import DataPath


@dataclass
class RenamedRows:
    """Reads another source and renames some of its columns."""

    inner: RowSource
    names: Mapping[str, str]  # in the file -> in the record

    def schema(self, path: DataPath) -> pa.Schema:
        """Returns the columns under their new names."""
        return rename(self.inner.schema(path), self.names)

    def divide(self, path: DataPath, relative: str, target: int) -> list[Range]:
        """Divides as the inner source does."""
        return self.inner.divide(path, relative, target)

    def read(self, path: DataPath, part: Range, schema: pa.Schema) -> Iterator[RowBatch]:
        """Reads rows for a schema with the new names."""
        inner_schema = rename(schema, {new: old for old, new in self.names.items()})
        for batch in self.inner.read(path, part, inner_schema):
            columns = pa.RecordBatch.from_arrays(batch.columns.columns, schema=schema)
            yield replace(batch, columns=columns)


def rename(schema: pa.Schema, names: Mapping[str, str]) -> pa.Schema:
    """Returns the columns under their new names; rejects two columns with the same name."""
    for old, new in names.items():
        if old in schema.names and new != old and new in schema.names:
            raise SettingsError(
                f"column {old!r} would become {new!r} in the record, but the data already has a column {new!r}: "
                f"choose that one with --set ingest.{new}={new}, or rename one of them in the data"
            )
    return pa.schema([field.with_name(names.get(field.name, field.name)) for field in schema], schema.metadata)
