"""The listing of the input: every source file, identified. Its own digest is the data's part of the cache key.

    data folder ─► find ─┬─ on this machine ─► hash (cached by stat) ─┬─► Listing.digest
                         └─ on a store ──────► size and etag ─────────┘

The digest covers paths and contents: moving `cat/x.jpg` to `dog/x.jpg` changes a label and so the digest.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from components.errors import BadInput
from components.ingest.sources import FileSource, Found, SourceFiles
from components.ingest.survey.listed_files import ListedFiles
from components.records.quarantine import Quarantined
from components.storage.entries import Entries
from components.storage.hashing import HashCache, HashedFile, digest_of
from components.storage.paths import DataPath
from components.strings import Strings

_CHUNK = 50_000  # files that are hashed together


@dataclass(frozen=True)
class Listing:
    """The files to ingest, and those that are quarantined without being read."""

    files: ListedFiles
    quarantined: tuple[Quarantined, ...]
    ignored: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Digest that changes with any path, label or content."""
        return digest_of(self._rows())

    def _rows(self) -> Iterator[str]:
        for path, label, identity in self.identities():
            yield f"{path}\0{label}\0{identity}"
        yield "quarantined"
        for bad in self.quarantined:
            yield f"{bad.path}\0{bad.reason}"

    def identities(self) -> Iterator[tuple[str, str, str]]:
        """Yields path, label and identity of each file."""
        sources = self.files.sources
        return zip(sources.paths, sources.each_label(), self.files.identities(), strict=True)

    @property
    def labels(self) -> set[str]:
        """Distinct labels; none if rows have labels."""
        return set(self.files.sources.labels) - {""}

    @property
    def size(self) -> int:
        """Bytes of all files that will be read."""
        return sum(self.files.sizes)

    @property
    def records(self) -> int:
        """Records in, as the ledger counts them."""
        return len(self.files) + len(self.quarantined)


def take(source: FileSource, data: DataPath, cache: HashCache, entries: Entries | None = None) -> Listing:
    """Lists the files of a source, each of which is a record; workers hash those that a store identifies.

    Args:
        source: lists the files.
        data: the folder.
        cache: digests of files that have not changed.
        entries: the listing of a remote folder, if there is one already.
    """
    found = source.find(data, entries)
    listed = found.entries
    if listed is not None and all(listed.identities) and isinstance(found.files, SourceFiles):
        return Listing(ListedFiles.on_store(found.files, listed), found.quarantined, found.ignored)
    return hash_found(found, data, cache)


def hash_found(found: Found, data: DataPath, cache: HashCache) -> Listing:
    """Hashes the files that a source found."""

    def hashed(names: Sequence[str], entries: Entries | None) -> Iterator[HashedFile]:
        for start in range(0, len(names), _CHUNK):
            stop = start + _CHUNK
            yield from cache.hash_files(data, names[start:stop], entries.stats(start, stop) if entries else None)

    return _identified(found, data, hashed)


def identify_found(found: Found, data: DataPath, cache: HashCache) -> Listing:
    """Identifies the files that a source found; large ones are not read."""

    def identified(names: Sequence[str], entries: Entries | None) -> list[HashedFile]:
        return cache.identify_files(data, names, entries.stats() if entries else None)

    return _identified(found, data, identified)


def _identified(
    found: Found, data: DataPath, identify: Callable[[Sequence[str], Entries | None], Iterable[HashedFile]]
) -> Listing:
    sources = found.files if isinstance(found.files, SourceFiles) else SourceFiles(found.files)
    files = ListedFiles(sources=sources)
    try:
        for item in identify(sources.paths, _entries_of(found, data, sources.paths)):
            files.append(item.size, item.digest, item.stat)
    except OSError as error:
        raise BadInput(f"{error.filename}: cannot be read: {error.strerror}; nothing was ingested") from error
    return Listing(files, found.quarantined, found.ignored)


def _entries_of(found: Found, data: DataPath, names: Strings) -> Entries | None:
    """Returns what the store says about the files, by one listing; None for local files, and for a few."""
    if isinstance(data, Path):
        return None
    if found.entries is None and len(names) <= _CHUNK:
        return None  # the cache asks for all of them at once
    return (found.entries or Entries.below(data)).of(names, data)
