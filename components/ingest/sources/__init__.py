"""Sources of raw data: one format per module, each with an object `SOURCE`.

A file source (class folders) has one record per file:

    find(data, entries)            ─► Found: the files with their labels, and quarantined files with the reason
    read(file, content, settings)  ─► FileRecord; raises `Rejected` with the reason

A row source (tables) has many records per file: see `rows.py`.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Protocol, overload, runtime_checkable

from components.records.quarantine import Quarantined
from components.storage.entries import Entries
from components.storage.paths import DataPath
from components.strings import Strings

if TYPE_CHECKING:  # so that worker processes start sooner
    from components.ingest.images import CheckedImage
    from components.settings.ingest import Ingest


@dataclass(frozen=True)
class SourceFile:
    """A raw file below the data folder."""

    path: str  # relative, forward slashes
    label: str


class SourceFiles(Sequence[SourceFile]):
    """Raw files in columns: paths, and the number of each label."""

    def __init__(self, files: Iterable[SourceFile] = (), paths: Strings | None = None) -> None:
        """Adds files; with `paths`, their labels are added later, one by one."""
        self.paths = Strings() if paths is None else paths
        self._numbers, self._known, self.labels = array("l"), dict[str, int](), list[str]()
        for file in files:
            self.append(file.path, file.label)

    def append(self, path: str, label: str) -> None:
        """Adds a file."""
        self.paths.append(path)
        self.append_labels(label, 1)

    def append_labels(self, label: str, count: int) -> None:
        """Adds the label of the next paths."""
        if not count:
            return
        number = self._known.setdefault(label, len(self.labels))
        if number == len(self.labels):
            self.labels.append(label)
        self._numbers.extend(repeat(number, count))

    def each_label(self) -> Iterator[str]:
        """Yields the label of each file."""
        return map(self.labels.__getitem__, self._numbers)

    def every(self, first: int, step: int) -> "SourceFiles":
        """Returns every `step`-th file, from number `first` on; its labels are those that they have."""
        files = SourceFiles(paths=self.paths.every(first, step))
        numbers = self._numbers[first::step]
        used = sorted(set(numbers))
        files.labels = [self.labels[number] for number in used]
        files._known = {label: number for number, label in enumerate(files.labels)}
        files._numbers = array("l", map({old: new for new, old in enumerate(used)}.__getitem__, numbers))
        return files

    def columns(self) -> tuple[bytes, bytes, bytes]:
        """Returns the columns but the labels' names, for `of_columns`."""
        return *self.paths.columns(), self._numbers.tobytes()

    @staticmethod
    def of_columns(columns: Sequence[bytes], labels: Sequence[str]) -> "SourceFiles":
        """Returns files from what `columns` has returned, and the labels."""
        data, ends, numbers = columns
        files = SourceFiles(paths=Strings.of_columns(data, ends))
        files.labels, files._numbers = list(labels), array("l", numbers)
        files._known = {label: number for number, label in enumerate(labels)}
        return files

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> SourceFile: ...

    @overload
    def __getitem__(self, index: slice) -> list[SourceFile]: ...

    def __getitem__(self, index: int | slice) -> SourceFile | list[SourceFile]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return SourceFile(self.paths[index], self.labels[self._numbers[index]])

    def __iter__(self) -> Iterator[SourceFile]:
        labels = self.labels
        return (SourceFile(path, labels[number]) for path, number in zip(self.paths, self._numbers, strict=True))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SourceFiles):
            same = self.labels == other.labels and self._numbers == other._numbers
            return same and self.paths == other.paths
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Found:
    """The files that a source found: in the ledger, files + quarantined are the records in."""

    files: Sequence[SourceFile]
    quarantined: tuple[Quarantined, ...]
    ignored: tuple[str, ...] = ()  # hidden files, and files that describe the data
    entries: Entries | None = None  # the same files, with size and identity, if a listing of a store has shown them


@dataclass(frozen=True)
class FileRecord:
    """The record of one file, and facts for the manifest."""

    columns: Mapping[str, bytes | int]
    side: int  # shorter side in pixels; 0 for text
    changed: str = ""  # why an image was re-encoded
    perceptual_hash: int | None = None  # of an image, to find near duplicates


class FileSource(Protocol):
    """Lists and reads data with one record per file."""

    def find(self, data: DataPath, entries: Entries | None = None) -> Found:
        """Lists the files; `entries` is the listing of a remote folder, if there is one already."""

    def read(self, file: SourceFile, content: bytes, settings: "Ingest") -> FileRecord:
        """Returns the record of one file."""


@runtime_checkable
class ImageSource(FileSource, Protocol):
    """A file source of images, whose checks can be cached by content."""

    def record(self, file: SourceFile, image: "CheckedImage") -> FileRecord:
        """Returns the record of an image that was checked."""
