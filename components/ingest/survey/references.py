"""Rows that refer to images by their paths: which column holds them, and which files they are.

    cell "img/7.png" of lists/a.csv ─► lists/img/7.png ─► inside the data folder, a regular file? ─► to be opened

A path is relative to the folder of the file that names it. Nothing outside the data folder is ever opened: absolute
paths, addresses, `..` that leads out of it and links that lead out of it are refused, each with its reason.
"""

import contextlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from components.errors import SettingsError
from components.ingest.sources import Rejected
from components.ingest.sources.class_folders import IMAGE_SUFFIXES
from components.ingest.sources.rows import RowSource
from components.ingest.survey import columns
from components.storage.paths import DataPath, open_whole
from components.storage.remote_path import RemotePath

NONE = "none"  # what to ask for if paths of images are to stay text
_SAMPLE = 50  # values by which a column is known
_MOST = 0.9  # of them end like images …
_SOME = 0.5  # … and are there: a list may be older than the folder
_PIECE = 4 << 20  # bytes asked for at once
_WHOLE = 1 << 62  # bytes: a file is not to be cut


@dataclass(frozen=True)
class Image:
    """A file that a row refers to and that may be opened."""

    path: str  # relative to the data folder
    real: str | DataPath  # where that leads: a path of this machine without a link in it, or an address
    size: int  # bytes; 0 at an address, where asking costs as much as reading


def image_column(
    source: RowSource, path: DataPath, schema: pa.Schema, asked: str, data: DataPath | None = None, folder: str = ""
) -> str:
    """Returns the column with paths of images: the one asked for, else the one that plainly is so, else none.

    Args:
        source: reads the file.
        path: a file of rows; its first ones are looked at.
        schema: its columns.
        asked: a column, or `NONE`, or nothing.
        data: the data folder, if it is not the folder of the file.
        folder: of the file, relative to the data folder.
    """
    if asked == NONE and NONE not in schema.names:
        return ""
    if asked:
        return _checked(schema, asked)
    found = list(_plain(source, path, schema, finder(data or path.parent), folder))
    if len(found) > 1:
        raise SettingsError(
            f"{path}: columns {', '.join(map(repr, found))} hold paths of images, a record has one; "
            f"choose it: --set ingest.images={found[0]}, or {NONE} to keep all of them as text"
        )
    return found[0] if found else ""


def paths(source: RowSource, data: DataPath, files: Sequence[str], schema: pa.Schema, column: str) -> list[str]:
    """Returns all images that rows refer to and that may be opened: relative to `data`, once each, in order.

    The rows of all others will be set aside, with the reason.
    """
    below = finder(data)
    found: dict[str, None] = {}
    for file in files:
        for value in _values(source, data / file, schema, column):
            with contextlib.suppress(Rejected):
                found[below.find(posixpath.dirname(file), value).path] = None
    known = data.files_below() if isinstance(data, RemotePath) else found
    return [path for path in found if path in known]


def read(image: Image, most: int) -> bytes:
    """Returns the content of a image, or as much of it as shows that it has more than `most` bytes.

    A link that has come into its place since it was found is not followed.
    """
    if not isinstance(image.real, str):
        with open_whole(image.real) as stream:
            return _some(stream, most + 1)
    descriptor = os.open(image.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        # A limit is allocated before it is read to, so it is given only where it is needed.
        return file.read(most + 1) if os.fstat(descriptor).st_size > most else file.read()


def _some(stream: BinaryIO, most: int) -> bytes:
    found = b""
    while len(found) < most and (more := stream.read(min(_PIECE, most - len(found)))):
        found = found + more if found else more
    return found


class Finder(Protocol):
    """Finds files below the data folder, and refuses all others."""

    def find(self, folder: str, value: str | None) -> Image:
        """Returns a image.

        Args:
            folder: of the file that refers to it, relative to the data folder.
            value: what the row says.

        Raises:
            Rejected: It must not be opened, or is not there.
        """


def finder(data: DataPath) -> Finder:
    """Returns who finds images below a folder."""
    return _Folder(data) if isinstance(data, Path) else _Address(data)


class _Address:
    """At an address there are no links, and whether a image is there turns out when it is read."""

    def __init__(self, data: DataPath) -> None:
        self._data = data

    def find(self, folder: str, value: str | None) -> Image:
        path = _inside(folder, value)
        return Image(path, self._data / path, 0)


class _Folder:
    """On this machine; paths are strings, as `pathlib` would take twice as long for a million of them."""

    def __init__(self, data: Path) -> None:
        self._home = os.path.realpath(data)
        # Images of one folder are asked for in a row.
        self._real = lru_cache(maxsize=4096)(lambda folder: self._check(posixpath.join(self._home, folder)))

    def find(self, folder: str, value: str | None) -> Image:
        path = _inside(folder, value)
        try:
            return self._found(path)
        except FileNotFoundError:
            raise Rejected(f"image {value!r} is not there") from None
        except OSError as error:
            raise Rejected(f"image {value!r} cannot be read: {error.strerror}") from None
        except _Refused as reason:
            raise Rejected(f"image {value!r} {reason}") from None

    def _found(self, path: str) -> Image:
        parent, name = posixpath.split(path)
        real = f"{self._real(parent)}/{name}"
        told = os.lstat(real)
        if stat.S_ISLNK(told.st_mode):
            real = self._check(real)
            told = os.lstat(real)
        if not stat.S_ISREG(told.st_mode):
            raise _Refused("is not a regular file")
        return Image(path, real, told.st_size)

    def _check(self, path: str) -> str:
        """Returns where a path really leads, if that is inside the data folder."""
        real = os.path.realpath(path, strict=True)
        if real != self._home and not real.startswith(f"{self._home.rstrip('/')}/"):
            raise _Refused("is behind a link that leads outside the data folder")
        return real


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
    kind = schema.field(columns.known(schema, asked, "images")).type
    if not _is_text(kind):
        raise SettingsError(f"setting ingest.images: column {asked!r} is {kind}, expected text with paths of images")
    return asked


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plain(source: RowSource, path: DataPath, schema: pa.Schema, below: Finder, folder: str) -> Iterator[str]:
    """Yields the columns whose first values end like images and are there, most of them."""
    names = [field.name for field in schema if _is_text(field.type)]
    if not names:
        return
    sample = first_rows(source, path, schema)
    for name in names:
        values = list(islice(filter(None, sample.column(schema.get_field_index(name)).to_pylist()), _SAMPLE))
        if not values or sum(map(_ends_like_an_image, values)) < _MOST * len(values):
            continue
        if sum(_is_there(below, folder, value) for value in values) >= _SOME * len(values):
            yield name


def _is_there(below: Finder, folder: str, value: str) -> bool:
    try:
        real = below.find(folder, value).real
    except Rejected:
        return False
    return isinstance(real, str) or real.is_file()


def first_rows(source: RowSource, path: DataPath, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the first batch of a file with a row in it."""
    for part in source.divide(path, path.name, _WHOLE):
        for batch in source.read(path, part, schema):
            if batch.columns.num_rows:
                return batch.columns
    return pa.RecordBatch.from_pylist([], schema=schema)


def _ends_like_an_image(value: str) -> bool:
    return posixpath.splitext(value)[1].lower() in IMAGE_SUFFIXES


def _values(source: RowSource, path: DataPath, schema: pa.Schema, column: str) -> Iterator[str | None]:
    """Yields what stands in a column, without most of its repetitions."""
    place = schema.get_field_index(column)
    for part in source.divide(path, path.name, _WHOLE):
        for batch in source.read(path, part, schema):
            yield from pc.unique(batch.columns.column(place)).to_pylist()
