"""Sources of raw data: one format per module, each with an object `SOURCE`.

A file source (class folders) has one record per file:

    find(data)                     ─► Found: the files with their labels, and quarantined files with the reason
    read(file, content, settings)  ─► FileRecord; raises `Rejected` with the reason

A row source (tables) has many records per file: see `rows.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from components.records.quarantine import Quarantined
from components.storage.paths import DataPath

if TYPE_CHECKING:  # so that worker processes start sooner
    from components.ingest.images import CheckedImage
    from components.settings.ingest import Ingest


@dataclass(frozen=True)
class SourceFile:
    """A raw file below the data folder."""

    path: str  # relative, forward slashes
    label: str


@dataclass(frozen=True)
class Found:
    """The files that a source found: in the ledger, files + quarantined are the records in."""

    files: tuple[SourceFile, ...]
    quarantined: tuple[Quarantined, ...]
    ignored: tuple[str, ...] = ()  # hidden files, and files that describe the data


@dataclass(frozen=True)
class FileRecord:
    """The record of one file, and facts for the manifest."""

    columns: Mapping[str, bytes | int]
    side: int  # shorter side in pixels; 0 for text
    changed: str = ""  # why an image was re-encoded
    perceptual_hash: int | None = None  # of an image, to find near duplicates


class FileSource(Protocol):
    """Lists and reads data with one record per file."""

    def find(self, data: DataPath) -> Found:
        """Lists the files."""

    def read(self, file: SourceFile, content: bytes, settings: "Ingest") -> FileRecord:
        """Returns the record of one file."""


@runtime_checkable
class ImageSource(FileSource, Protocol):
    """A file source of images, whose checks can be cached by content."""

    def record(self, file: SourceFile, image: "CheckedImage") -> FileRecord:
        """Returns the record of an image that was checked."""
