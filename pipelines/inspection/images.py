"""Class folders of images as rows: what the files' headers say. No pixel is decoded."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa
from PIL import Image, UnidentifiedImageError

from components.ingest.sources import Found, SourceFile
from components.ingest.sources.rows import BadRow, RowBatch
from components.ingest.survey.detect import Place
from components.records.quarantine import printable

SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "class": pa.string(),
        "format": pa.string(),
        "width": pa.int64(),
        "height": pa.int64(),
        "bytes": pa.int64(),
    }
)
_BATCH = 1000  # files
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")
_Row = tuple[str, str, str, int, int, int]


def read(home: Place, found: Found) -> Iterator[RowBatch]:
    """Yields a row a file, with those that are no images as bad rows."""
    yield RowBatch(_batch([]), tuple(BadRow(bad.path, bad.reason) for bad in found.quarantined))
    files = iter(found.files)
    while some := tuple(islice(files, _BATCH)):
        made = [_row(home, file) for file in some]
        bad = tuple(row for row in made if isinstance(row, BadRow))
        yield RowBatch(_batch([row for row in made if not isinstance(row, BadRow)]), bad)


def _row(home: Place, file: SourceFile) -> _Row | BadRow:
    path, shown = home / file.path, printable(file.path)
    try:
        size = path.stat().st_size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that may be bombs: no pixel is decoded here
            with path.open("rb") as stream, Image.open(stream, formats=_FORMATS) as image:
                kind = "JPEG" if image.format == "MPO" else str(image.format)
                return shown, file.label, kind, image.width, image.height, size
    except UnidentifiedImageError:
        return BadRow(shown, "not an image" if size else "empty file")
    except Image.DecompressionBombError:
        return BadRow(shown, "more pixels than ingest takes")
    except OSError as error:
        return BadRow(shown, f"cannot be read: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - on damaged headers Pillow raises nearly every built-in exception
        return BadRow(shown, f"its header is damaged: {type(error).__name__}")


def _batch(rows: Sequence[_Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
