"""Reads whole files through a row source, range by range."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from components.ingest.sources.rows import BadRow, RowSource

WHOLE = 1 << 40  # a target that no file reaches
TARGETS = (1, 7, 40, 300, WHOLE)

Rows = list[dict[str, Any]]


def read(
    source: RowSource, path: Path, schema: pa.Schema | None = None, target: int = WHOLE
) -> tuple[Rows, list[BadRow]]:
    """Returns all rows and all bad rows of a file that is divided into ranges of `target` bytes."""
    schema = schema or source.schema(path)
    batches = [batch for part in source.divide(path, path.name, target) for batch in source.read(path, part, schema)]
    assert all(batch.columns.schema == schema for batch in batches)
    return [row for batch in batches for row in batch.columns.to_pylist()], [
        bad for each in batches for bad in each.bad
    ]
