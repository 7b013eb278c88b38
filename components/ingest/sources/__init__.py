"""One kind of raw data a file. Each module has a `SOURCE` with two methods.

find(data)                     -> Found: the files, their labels, what was refused and why
read(file, content, settings)  -> one record's columns, or `Rejected` with the reason
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from components.places import DataPath
from components.settings import Ingest


def printable(path: str) -> str:
    """Returns a file name for people and JSON: names on disk are bytes and need not be UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Rejected(ValueError):
    """A file cannot become a record; the message is the reason."""


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
    position: str = ""  # of a row: "line 12"
    raw: str = ""  # the row itself, up to a limit, so that a person can mend and re-ingest it


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


class Source(Protocol):
    """How one kind of raw data is found and read."""

    def find(self, data: DataPath) -> Found:
        """Lists the data."""

    def read(self, file: SourceFile, content: bytes, settings: Ingest) -> Record:
        """Turns one file into a record."""
