"""Rows that refer to pictures by their paths: which column holds them, and which files they are.

    cell "img/7.png" of lists/a.csv ─► lists/img/7.png ─► inside the data folder, a regular file? ─► to be opened

A path is relative to the folder of the file that names it. Nothing outside the data folder is ever opened: absolute
paths, addresses, `..` that leads out of it and links that lead out of it are refused, each with its reason.
"""

import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from components.errors import SettingsError
from components.ingest import infer
from components.ingest.rows import RowSource
from components.ingest.sources import Rejected
from components.ingest.sources.class_folders import IMAGE_SUFFIXES

NONE = "none"  # what to ask for if paths of images are to stay text
_SAMPLE = 100  # values by which a column is known
_MOST = 0.9  # of them end like images …
_SOME = 0.5  # … and are there: a list may be older than the folder
_WHOLE = 1 << 62  # bytes: a file is not to be cut


@dataclass(frozen=True)
class Picture:
    """A file that a row refers to and that may be opened."""

    path: str  # relative to the data folder
    real: Path  # where that leads
    size: int


def image_column(source: RowSource, path: Path, schema: pa.Schema, asked: str, data: Path | None = None) -> str:
    """Returns the column with paths of images: the one asked for, else the one that plainly is so, else none.

    Args:
        source: reads the file.
        path: a file of rows; its first ones are looked at.
        schema: its columns.
        asked: a column, or `NONE`, or nothing.
        data: the data folder, if it is not the folder of the file.
    """
    if asked == NONE and NONE not in schema.names:
        return ""
    if asked:
        return _checked(schema, asked)
    folder = path.parent.relative_to(data).as_posix() if data else ""
    found = list(_plain(source, path, schema, Finder(data or path.parent), folder))
    if len(found) > 1:
        raise SettingsError(
            f"{path}: columns {', '.join(map(repr, found))} hold paths of images, a record has one; "
            f"choose it: --set ingest.images={found[0]}, or {NONE} to keep all of them as text"
        )
    return found[0] if found else ""


def paths(source: RowSource, data: Path, files: Sequence[str], schema: pa.Schema, column: str) -> list[str]:
    """Returns all pictures that rows refer to and that may be opened: relative to `data`, once each, in order.

    The rows of all others will be set aside, with the reason.
    """
    finder = Finder(data)
    found: dict[str, None] = {}
    for file in files:
        for value in _values(source, data / file, schema, column):
            if picture := finder.look(posixpath.dirname(file), value):
                found[picture.path] = None
    return list(found)


class Finder:
    """Finds files below the data folder, and refuses all others."""

    def __init__(self, data: Path) -> None:
        self._data, self._home = data, Path(os.path.realpath(data))
        # Pictures of one folder are asked for in a row.
        self._folder = lru_cache(maxsize=4096)(lambda folder: self._check(data / folder))

    def find(self, folder: str, value: str | None) -> Picture:
        """Returns a picture.

        Args:
            folder: of the file that refers to it, relative to the data folder.
            value: what the row says.

        Raises:
            Rejected: It must not be opened, or is not there.
        """
        path = _inside(folder, value)
        try:
            return self._found(path)
        except FileNotFoundError:
            raise Rejected(f"image {value!r} is not there") from None
        except OSError as error:
            raise Rejected(f"image {value!r} cannot be read: {error.strerror}") from None
        except _Refused as reason:
            raise Rejected(f"image {value!r} {reason}") from None

    def look(self, folder: str, value: str | None) -> Picture | None:
        """Returns a picture if it may be opened and is there."""
        try:
            return self.find(folder, value)
        except Rejected:
            return None

    def _found(self, path: str) -> Picture:
        parent, name = posixpath.split(path)
        real = self._folder(parent) / name
        told = real.lstat()
        if stat.S_ISLNK(told.st_mode):
            real = self._check(real)
            told = real.lstat()
        if not stat.S_ISREG(told.st_mode):
            raise _Refused("is not a regular file")
        return Picture(path, real, told.st_size)

    def _check(self, path: Path) -> Path:
        """Returns where a path really leads, if that is inside the data folder."""
        real = Path(os.path.realpath(path, strict=True))
        if real != self._home and self._home not in real.parents:
            raise _Refused("is behind a link that leads outside the data folder")
        return real


def read(picture: Picture) -> bytes:
    """Returns the content of a picture; a link that has come into its place since then is not followed."""
    descriptor = os.open(picture.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


class _Refused(Exception):
    """A file must not be opened."""


def _inside(folder: str, value: str | None) -> str:
    """Returns a path relative to the data folder, if it can be one by its spelling."""
    if not value:
        raise Rejected("refers to no image")
    if "\0" in value:
        raise Rejected(f"image {value!r}: a path cannot hold NUL")
    if "://" in value:
        raise Rejected(f"image {value!r} is an address; expected a path relative to the file that names it")
    if value.startswith("/"):
        raise Rejected(f"image {value!r} is an absolute path; expected one relative to the file that names it")
    path = posixpath.normpath(posixpath.join(folder, value))
    if path.split("/")[0] == "..":
        raise Rejected(f"image {value!r} leads outside the data folder")
    return path


def _checked(schema: pa.Schema, asked: str) -> str:
    kind = schema.field(infer.known(schema, asked, "images")).type
    if not _is_text(kind):
        raise SettingsError(f"setting ingest.images: column {asked!r} is {kind}, expected text with paths of images")
    return asked


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plain(source: RowSource, path: Path, schema: pa.Schema, finder: Finder, folder: str) -> Iterator[str]:
    """Yields the columns whose first values end like images and are there, most of them."""
    names = [field.name for field in schema if _is_text(field.type)]
    if not names:
        return
    sample = _first_rows(source, path, schema)
    for name in names:
        values = list(islice(filter(None, sample.column(schema.get_field_index(name)).to_pylist()), _SAMPLE))
        if not values or sum(map(_ends_like_an_image, values)) < _MOST * len(values):
            continue
        if sum(finder.look(folder, value) is not None for value in values) >= _SOME * len(values):
            yield name


def _first_rows(source: RowSource, path: Path, schema: pa.Schema) -> pa.RecordBatch:
    for part in source.divide(path, path.name, _WHOLE):
        for batch in source.read(path, part, schema):
            if batch.columns.num_rows:
                return batch.columns
    return pa.RecordBatch.from_pylist([], schema=schema)


def _ends_like_an_image(value: str) -> bool:
    return posixpath.splitext(value)[1].lower() in IMAGE_SUFFIXES


def _values(source: RowSource, path: Path, schema: pa.Schema, column: str) -> Iterator[str | None]:
    """Yields what stands in a column, without most of its repetitions."""
    place = schema.get_field_index(column)
    for part in source.divide(path, path.name, _WHOLE):
        for batch in source.read(path, part, schema):
            yield from pc.unique(batch.columns.column(place)).to_pylist()
