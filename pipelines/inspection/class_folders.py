"""Class folders as rows, one per file: the header of an image, the content of a text. No pixel is decoded."""

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from components.ingest.sources import Found, SourceFile
from components.ingest.sources.rows import BadRow, RowBatch
from components.records.quarantine import Rejected, printable
from components.settings.ingest import Ingest
from components.storage.paths import DataPath

_IMAGES = pa.schema(
    dict.fromkeys(("path", "class", "format"), pa.string()) | dict.fromkeys(("width", "height", "bytes"), pa.int64())
)
_TEXTS = pa.schema({"path": pa.string(), "class": pa.string(), "text": pa.string(), "bytes": pa.int64()})
_BATCH = 256  # files
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "JPEG2000", "BMP", "TIFF")
_Row = dict[str, Any] | BadRow


def batches(home: DataPath, found: Found, *, has_images: bool) -> Iterator[RowBatch]:
    """Yields the images or texts of class folders; files that ingest would reject are bad rows."""
    schema, read = (_IMAGES, _image) if has_images else (_TEXTS, _text)
    bad = tuple(BadRow(file.path, file.reason) for file in found.quarantined)
    yield RowBatch(pa.RecordBatch.from_pylist([], schema=schema), bad)
    files = iter(found.files)
    while some := tuple(islice(files, _BATCH)):
        rows = [read(home / file.path, file) for file in some]
        good = [row for row in rows if not isinstance(row, BadRow)]
        bad = tuple(row for row in rows if isinstance(row, BadRow))
        yield RowBatch(pa.RecordBatch.from_pylist(good, schema=schema), bad)


def _image(path: DataPath, file: SourceFile) -> _Row:
    from PIL import Image, UnidentifiedImageError

    shown = printable(file.path)
    try:
        size = path.stat().st_size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about decompression bombs: no pixel is decoded here
            with path.open("rb") as stream, Image.open(stream, formats=_FORMATS) as image:
                kind = "JPEG" if image.format == "MPO" else str(image.format)
                facts = {"format": kind, "width": image.width, "height": image.height}
    except UnidentifiedImageError:
        return BadRow(shown, "not an image" if size else "empty file")
    except Image.DecompressionBombError:
        return BadRow(shown, "more pixels than ingest accepts")
    except OSError as error:
        return BadRow(shown, f"cannot be read: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - on damaged headers Pillow raises nearly every built-in exception
        return BadRow(shown, f"damaged header: {type(error).__name__}")
    return {"path": shown, "class": file.label, **facts, "bytes": size}


def _text(path: DataPath, file: SourceFile) -> _Row:
    from components.ingest.sources.text_folder import SOURCE

    shown = printable(file.path)
    try:
        content = path.read_bytes()
        text = bytes(SOURCE.read(file, content, Ingest()).columns["text"])
    except Rejected as error:
        return BadRow(shown, str(error))
    except OSError as error:
        return BadRow(shown, f"cannot be read: {error.strerror or error}")
    return {"path": shown, "class": file.label, "text": text.decode(), "bytes": len(content)}
