"""The content manifest: every source file with its digest. Its own digest is the data's part of the cache key.

    data folder ─► find ─► hash (remembered by stat) ─► Listing.digest

Path and content are both in it: moving `cat/x.jpg` to `dog/x.jpg` changes a label and so the digest.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from components.errors import BadInput
from components.ingest.sources import Found, Source, SourceFile
from components.records.quarantine import Quarantined
from components.storage.hashing import HashCache, digest_of
from components.storage.paths import DataPath


@dataclass(frozen=True)
class ListedFile:
    """A source file that will be read."""

    file: SourceFile
    size: int
    sha256: str
    stat: str = field(default="", compare=False)  # by which it is known to be what was hashed; see HashedFile


@dataclass(frozen=True)
class Listing:
    """What there is to ingest."""

    files: tuple[ListedFile, ...]
    refused: tuple[Quarantined, ...]
    ignored: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Changes with any path, label or content."""
        rows = [f"{item.file.path}\0{item.file.label}\0{item.sha256}" for item in self.files]
        return digest_of([*rows, "refused", *(f"{item.path}\0{item.reason}" for item in self.refused)])

    @property
    def records(self) -> int:
        """Records in, as the ledger counts them."""
        return len(self.files) + len(self.refused)

    def duplicates(self) -> list[tuple[ListedFile, ...]]:
        """Returns groups of files with the same bytes."""
        groups: dict[str, list[ListedFile]] = defaultdict(list)
        for item in self.files:
            groups[item.sha256].append(item)
        return [tuple(group) for group in groups.values() if len(group) > 1]


def take(source: Source, data: DataPath, cache: HashCache) -> Listing:
    """Lists and hashes the data."""
    return hash_found(source.find(data), data, cache)


def hash_found(found: Found, data: DataPath, cache: HashCache) -> Listing:
    """Hashes what a source found."""
    try:
        hashed = cache.hash_files(data, (file.path for file in found.files))
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be read: {error.strerror}; nothing was ingested") from error
    files = (
        ListedFile(file, item.size, item.sha256, item.stat) for file, item in zip(found.files, hashed, strict=True)
    )
    return Listing(tuple(files), found.refused, found.ignored)
