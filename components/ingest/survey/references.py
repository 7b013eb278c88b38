"""Rows that refer to images by path: which column holds the paths, and which files they are.

    cell "img/7.png" of lists/a.csv ─► lists/img/7.png ─► inside the data folder, a regular file? ─► may be opened

A path is relative to the folder of the file that contains it. Nothing outside the data folder is ever opened: absolute
paths, addresses, and `..` or links that lead outside are rejected, each with its reason.
"""

import contextlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from components.errors import SettingsError
from components.ingest.sources.class_folders import IMAGE_SUFFIXES
from components.ingest.sources.conversion import is_text
from components.ingest.sources.rows import WHOLE, RowSource, Sample
from components.ingest.survey import columns
from components.records.quarantine import Rejected
from components.storage.paths import DataPath, open_whole

NONE = "none"  # value of ingest.images that keeps image paths as text
_MOST = 0.9  # of the sampled values have an image suffix …
_SOME = 0.5  # … and are existing files: a table may be older than the folder
_READ_BYTES = 4 << 20  # per request to an object store


@dataclass(frozen=True)
class ReferencedImage:
    """A file that a row refers to and that may be opened."""

    path: str  # relative to the data folder
    real: str | DataPath  # a local path without links, or a remote path
    size: int  # bytes; 0 for a remote file, where asking costs as much as reading


def image_column(sample: Sample, setting: str, data: DataPath, folder: str = "") -> str:
    """Returns the column with image paths: the one in the setting, else the only one that holds some, else "".

    Args:
        sample: the first rows of a file.
        setting: `ingest.images`: a column, `NONE`, or empty.
        data: the data folder.
        folder: folder of the file, relative to the data folder.
    """
    if setting == NONE and NONE not in sample.schema.names:
        return ""
    if setting:
        return _check_text(sample.schema, setting)
    found = list(_columns_with_paths(sample, ImageFinder(data), folder))
    if len(found) > 1:
        raise SettingsError(
            f"{sample.path}: columns {', '.join(map(repr, found))} hold image paths, expected one such column; "
            f"choose it: --set ingest.images={found[0]}, or {NONE} to keep all of them as text"
        )
    return found[0] if found else ""


def paths(source: RowSource, data: DataPath, files: Sequence[str], schema: pa.Schema, column: str) -> list[str]:
    """Returns all images that rows refer to and that may be opened: relative to `data`, once each, in order.

    Rows that refer to other files will be quarantined, with the reason.
    """
    below = ImageFinder(data)
    found: dict[str, None] = {}
    for file in files:
        for value in _values(source, data / file, schema, column):
            with contextlib.suppress(Rejected):
                found[below.find(posixpath.dirname(file), value).path] = None
    existing = found if isinstance(data, Path) else data.files_below()
    return [path for path in found if path in existing]


def read(image: ReferencedImage, most: int) -> bytes:
    """Returns the content of an image, or `most` + 1 bytes of it if it is larger than `most`.

    A link that has replaced the file since it was found is not followed.
    """
    if not isinstance(image.real, str):
        with open_whole(image.real) as stream:
            return _read_up_to(stream, most + 1)
    descriptor = os.open(image.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        # `read(limit)` allocates the limit first, so it is used for large files only.
        return file.read(most + 1) if os.fstat(descriptor).st_size > most else file.read()


def _read_up_to(stream: BinaryIO, most: int) -> bytes:
    found = b""
    while len(found) < most and (more := stream.read(min(_READ_BYTES, most - len(found)))):
        found = found + more if found else more
    return found


class ImageFinder:
    """Finds images below the data folder, and rejects all other paths."""

    def __init__(self, data: DataPath) -> None:
        self._data = data
        self._home = os.path.realpath(data) if isinstance(data, Path) else ""
        # Images of one folder follow one another.
        self._real_folder = lru_cache(maxsize=4096)(lambda folder: self._real(posixpath.join(self._home, folder)))

    def find(self, folder: str, value: str | None) -> ReferencedImage:
        """Returns the image that a row refers to.

        Args:
            folder: folder of the file that refers to it, relative to the data folder.
            value: the path in the row.

        Raises:
            Rejected: The file must not be opened, or does not exist.
        """
        path = _inside(folder, value)
        if not isinstance(self._data, Path):  # it has no links; reading shows whether the image exists
            return ReferencedImage(path, self._data / path, 0)
        try:
            return self._local(path)
        except FileNotFoundError:
            raise Rejected(f"image {value!r} does not exist") from None
        except OSError as error:
            raise Rejected(f"image {value!r} cannot be read: {error.strerror}") from None
        except Rejected as reason:
            raise Rejected(f"image {value!r} {reason}") from None

    def _local(self, path: str) -> ReferencedImage:
        """Returns an image of this machine; paths are strings, because `pathlib` takes twice as long."""
        parent, name = posixpath.split(path)
        real = f"{self._real_folder(parent)}/{name}"
        status = os.lstat(real)
        if stat.S_ISLNK(status.st_mode):
            real = self._real(real)
            status = os.lstat(real)
        if not stat.S_ISREG(status.st_mode):
            raise Rejected("is not a regular file")
        return ReferencedImage(path, real, status.st_size)

    def _real(self, path: str) -> str:
        """Returns the path without links, if it is inside the data folder."""
        real = os.path.realpath(path, strict=True)
        if real != self._home and not real.startswith(f"{self._home.rstrip('/')}/"):
            raise Rejected("is behind a link that leads outside the data folder")
        return real


def _inside(folder: str, value: str | None) -> str:
    """Returns the path relative to the data folder; rejects one that leads outside by its spelling."""
    if not value:
        raise Rejected("refers to no image")
    if "\0" in value:
        raise Rejected(f"image {value!r}: a path cannot hold NUL")
    if "://" in value:
        raise Rejected(f"image {value!r} is an address; expected a path relative to the file that contains it")
    if value.startswith("/"):
        raise Rejected(f"image {value!r} is an absolute path; expected one relative to the file that contains it")
    path = posixpath.normpath(posixpath.join(folder, value))
    if path.split("/")[0] == "..":
        raise Rejected(f"image {value!r} leads outside the data folder")
    return path


def _check_text(schema: pa.Schema, name: str) -> str:
    kind = schema.field(columns.check_column(schema, name, "images")).type
    if not is_text(kind):
        raise SettingsError(f"setting ingest.images: column {name!r} is {kind}, expected text with image paths")
    return name


def _columns_with_paths(sample: Sample, below: ImageFinder, folder: str) -> Iterator[str]:
    """Yields the columns in which most of the first values have an image suffix, and many are existing files."""
    for name in columns.strings(sample.schema):
        values = columns.first_values(sample.column(name))
        if not values or sum(map(_has_image_suffix, values)) < _MOST * len(values):
            continue
        if sum(_exists(below, folder, value) for value in values) >= _SOME * len(values):
            yield name


def _exists(below: ImageFinder, folder: str, value: str) -> bool:
    try:
        real = below.find(folder, value).real
    except Rejected:
        return False
    return isinstance(real, str) or real.is_file()


def _has_image_suffix(value: str) -> bool:
    return posixpath.splitext(value)[1].lower() in IMAGE_SUFFIXES


def _values(source: RowSource, path: DataPath, schema: pa.Schema, column: str) -> Iterator[str | None]:
    """Yields the values of a column, each once per batch."""
    place = schema.get_field_index(column)
    for part in source.divide(path, path.name, WHOLE):
        for batch in source.read(path, part, schema):
            yield from pc.unique(batch.columns.column(place)).to_pylist()
