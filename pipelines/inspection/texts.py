"""Class folders of texts as rows: what is in each file, as ingest would read it."""

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from components.ingest.sources import Found, Rejected, SourceFile
from components.ingest.sources.rows import BadRow, RowBatch
from components.ingest.sources.text_folder import SOURCE
from components.ingest.survey.detect import Place
from components.records.quarantine import printable
from components.settings.ingest import Ingest

SCHEMA = pa.schema({"path": pa.string(), "class": pa.string(), "text": pa.string(), "bytes": pa.int64()})
_BATCH = 256  # files


def read(home: Place, found: Found) -> Iterator[RowBatch]:
    """Yields a row a file, with those that are no texts as bad rows."""
    yield RowBatch(_batch([]), tuple(BadRow(bad.path, bad.reason) for bad in found.quarantined))
    files, settings = iter(found.files), Ingest()
    while some := tuple(islice(files, _BATCH)):
        made = [_row(home, file, settings) for file in some]
        bad = tuple(row for row in made if isinstance(row, BadRow))
        yield RowBatch(_batch([row for row in made if not isinstance(row, BadRow)]), bad)


def _row(home: Place, file: SourceFile, settings: Ingest) -> dict[str, object] | BadRow:
    shown = printable(file.path)
    try:
        content = (home / file.path).read_bytes()
        text = bytes(SOURCE.read(file, content, settings).columns["text"])
    except Rejected as error:
        return BadRow(shown, str(error))
    except OSError as error:
        return BadRow(shown, f"cannot be read: {error.strerror or error}")
    return {"path": shown, "class": file.label, "text": text.decode(), "bytes": len(content)}


def _batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
