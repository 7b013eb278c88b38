"""One kind of raw data a file. Each module has a `SOURCE` with two methods.

find(data)                     -> Found: the files, their labels, what was refused and why
read(file, content, settings)  -> one record's columns, or `Rejected` with the reason
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from components.records.quarantine import Quarantined
from components.storage.paths import DataPath

if TYPE_CHECKING:  # for a helper to start soon
    from components.ingest.images import CheckedImage
    from components.settings.ingest import Ingest


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
class Found:
    """All that a source found: in the ledger, files + refused are the records in."""

    files: tuple[SourceFile, ...]
    refused: tuple[Quarantined, ...]
    ignored: tuple[str, ...] = ()  # hidden and side files that no one would expect to be data


@dataclass(frozen=True)
class Record:
    """One record, and what a person may want to know of it."""

    columns: Mapping[str, bytes | int]
    side: int  # shorter side in pixels
    changed: str = ""  # why the bytes are not those of the file
    perceptual_hash: int | None = None  # of a image, by which copies are found that were encoded anew


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
