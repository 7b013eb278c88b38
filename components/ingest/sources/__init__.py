"""One kind of raw data a file. Each module has a `SOURCE` with two methods.

find(data)                     -> Found: the files, their labels, what was refused and why
read(file, content, settings)  -> one record's columns, or `Rejected` with the reason
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from components.storage.paths import DataPath

if TYPE_CHECKING:  # for a helper to start soon
    from components.ingest.images import CheckedImage
    from components.settings.ingest import Ingest

RAW_LIMIT = 4096  # bytes of what was set aside that are kept, so that a person can mend and re-ingest it


def printable(path: str) -> str:
    """Returns a file name for people and JSON: names on disk are bytes and need not be UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Rejected(ValueError):
    """A file cannot become a record; the message is the reason."""

    def __init__(self, reason: str, position: str = "") -> None:
        super().__init__(reason)
        self.position = position  # of the damage, such as "byte 1234", if it is known


@dataclass(frozen=True)
class SourceFile:
    """A raw file below the data folder."""

    path: str  # relative, forward slashes
    label: str


@dataclass(frozen=True)
class Refused:
    """A file, or a row of one, that was set aside, and why."""

    path: str
    reason: str
    position: str = ""  # of a row, "line 12"; of damage in a file, "byte 1234"
    raw: str = ""  # the row itself, or how the file begins, up to RAW_LIMIT; …
    raw_base64: str = ""  # … and this instead, where those bytes are not UTF-8

    @staticmethod
    def of(path: str, reason: str, position: str, raw: bytes) -> "Refused":
        """Keeps the bytes up to RAW_LIMIT, none of them changed: as text where they are text."""
        kept = raw[:RAW_LIMIT]
        try:
            return Refused(path, reason, position, raw=_text(kept))
        except UnicodeDecodeError:
            return Refused(path, reason, position, raw_base64=base64.b64encode(kept).decode())

    @property
    def raw_bytes(self) -> bytes:
        """The bytes that were kept, whatever they are."""
        return base64.b64decode(self.raw_base64) if self.raw_base64 else self.raw.encode()


@dataclass(frozen=True)
class Found:
    """All that a source found: in the ledger, files + refused are the records in."""

    files: tuple[SourceFile, ...]
    refused: tuple[Refused, ...]
    ignored: tuple[str, ...] = ()  # hidden and side files that no one would expect to be data


@dataclass(frozen=True)
class Record:
    """One record, and what a person may want to know of it."""

    columns: Mapping[str, bytes | int]
    side: int  # shorter side in pixels
    changed: str = ""  # why the bytes are not those of the file
    look: int | None = None  # of a image, by which copies are found that were encoded anew


class Source(Protocol):
    """How one kind of raw data is found and read."""

    def find(self, data: DataPath) -> Found:
        """Lists the data."""

    def read(self, file: SourceFile, content: bytes, settings: "Ingest") -> Record:
        """Turns one file into a record."""


@runtime_checkable
class ImageSource(Source, Protocol):
    """A source of images: what was found out about one is true of every file with the same bytes."""

    def record(self, file: SourceFile, image: "CheckedImage") -> Record:
        """Turns a image that was checked into a record."""


def _text(raw: bytes) -> str:
    """Returns bytes as text; half a character at the end is left out where the limit has cut it."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        if len(raw) < RAW_LIMIT or error.reason != "unexpected end of data":
            raise
        return raw[: error.start].decode()
