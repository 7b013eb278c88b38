"""The listing of the input: every source file with its digest. Its own digest is the data's part of the cache key.

    data folder ─► find ─► hash (cached by stat) ─► Listing.digest

The digest covers paths and contents: moving `cat/x.jpg` to `dog/x.jpg` changes a label and so the digest.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from components.errors import BadInput
from components.ingest.sources import FileSource, Found, SourceFile
from components.records.quarantine import Quarantined
from components.storage.hashing import HashCache, digest_of
from components.storage.paths import DataPath


@dataclass(frozen=True)
class ListedFile:
    """A source file that will be read."""

    file: SourceFile
    size: int
    sha256: str
    stat: str = field(default="", compare=False)  # identifies the file that was hashed; see HashedFile


@dataclass(frozen=True)
class Listing:
    """The files to ingest, and those that are quarantined without being read."""

    files: tuple[ListedFile, ...]
    quarantined: tuple[Quarantined, ...]
    ignored: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Digest that changes with any path, label or content."""
        rows = [f"{item.file.path}\0{item.file.label}\0{item.sha256}" for item in self.files]
        return digest_of([*rows, "quarantined", *(f"{item.path}\0{item.reason}" for item in self.quarantined)])

    @property
    def records(self) -> int:
        """Records in, as the ledger counts them."""
        return len(self.files) + len(self.quarantined)

    def duplicates(self) -> list[tuple[ListedFile, ...]]:
        """Returns groups of files with the same content."""
        groups: dict[str, list[ListedFile]] = defaultdict(list)
        for item in self.files:
            groups[item.sha256].append(item)
        return [tuple(group) for group in groups.values() if len(group) > 1]


def take(source: FileSource, data: DataPath, cache: HashCache) -> Listing:
    """Lists and hashes the files of a source."""
    return hash_found(source.find(data), data, cache)


def hash_found(found: Found, data: DataPath, cache: HashCache) -> Listing:
    """Hashes the files that a source found."""
    try:
        hashed = cache.hash_files(data, (file.path for file in found.files))
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be read: {error.strerror}; nothing was ingested") from error
    files = (
        ListedFile(file, item.size, item.sha256, item.stat) for file, item in zip(found.files, hashed, strict=True)
    )
    return Listing(tuple(files), found.quarantined, found.ignored)
