"""The listing of the input: every source file with its digest. Its own digest is the data's part of the cache key.

    data folder ─► find ─► hash (cached by stat) ─► Listing.digest

The digest covers paths and contents: moving `cat/x.jpg` to `dog/x.jpg` changes a label and so the digest.
Files are kept in columns: a million of them take as many bytes as their paths and digests, not a Python object each.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import overload

from components.errors import BadInput
from components.ingest.sources import FileSource, Found, SourceFile, SourceFiles
from components.records.quarantine import Quarantined
from components.storage.entries import Entries
from components.storage.hashing import HashCache, HashedFile, digest_of
from components.storage.paths import DataPath
from components.storage.strings import Strings

_SHA256 = 32  # bytes
_UNKNOWN = bytes(_SHA256)
_CHUNK = 50_000  # files that are hashed together
_BLOCK = 1_024  # digests that are converted together


@dataclass(frozen=True)
class ListedFile:
    """A source file that will be read."""

    file: SourceFile
    size: int
    sha256: str  # empty if the file was not read: then the stat identifies its content
    stat: str = ""  # identifies the file that was hashed; see HashedFile

    @property
    def identity(self) -> str:
        """Text that changes with the content."""
        return self.sha256 or f"stat {self.stat}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ListedFile):
            return NotImplemented
        return (self.file, self.size, self.identity) == (other.file, other.size, other.identity)

    def __hash__(self) -> int:
        return hash((self.file, self.size, self.identity))


class ListedFiles(Sequence[ListedFile]):
    """Source files in columns."""

    def __init__(self, files: Iterable[ListedFile] = (), sources: SourceFiles | None = None) -> None:
        """Adds files; with `sources`, their sizes and digests are added later, one by one."""
        self.sources = SourceFiles() if sources is None else sources
        self.sizes, self._digests, self._stats = array("q"), bytearray(), Strings()
        for item in files:
            self.sources.append(item.file.path, item.file.label)
            self.append(item.size, item.sha256, item.stat)

    def append(self, size: int, sha256: str, stat: str) -> None:
        """Adds size, digest and stat of the next file."""
        self.sizes.append(size)
        self._digests += bytes.fromhex(sha256) if sha256 else _UNKNOWN
        self._stats.append(stat)

    @property
    def stats(self) -> Strings:
        """Stat of each file that was hashed."""
        return self._stats

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> ListedFile: ...

    @overload
    def __getitem__(self, index: slice) -> list[ListedFile]: ...

    def __getitem__(self, index: int | slice) -> ListedFile | list[ListedFile]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return ListedFile(self.sources[at], self.sizes[at], self._digest(at), self._stats[at])

    def __iter__(self) -> Iterator[ListedFile]:
        digests = self._each_digest()
        for file, size, sha256, stat in zip(self.sources, self.sizes, digests, self._stats, strict=True):
            yield ListedFile(file, size, sha256, stat)

    def identities(self) -> Iterator[tuple[str, str, str]]:
        """Yields path, label and identity of each file; making a `ListedFile` each would take three times as long."""
        digests = self._each_digest()
        for path, label, sha256, stat in zip(
            self.sources.paths, self.sources.each_label(), digests, self._stats, strict=True
        ):
            yield path, label, sha256 or f"stat {stat}"

    def has_duplicates(self) -> bool:
        """Whether two digests are equal; files that were not read have none."""
        digests = [bytes(self._digests[at : at + _SHA256]) for at in range(0, len(self._digests), _SHA256)]
        return len(set(digests) - {_UNKNOWN}) < len(digests) - digests.count(_UNKNOWN)

    def _each_digest(self) -> Iterator[str]:
        """Yields the digest of each file; converted in blocks, which takes 0.6 of the time."""
        unknown, length = _UNKNOWN.hex(), 2 * _SHA256
        for start in range(0, len(self._digests), _BLOCK * _SHA256):
            text = self._digests[start : start + _BLOCK * _SHA256].hex()
            for at in range(0, len(text), length):
                digest = text[at : at + length]
                yield "" if digest == unknown else digest

    def _digest(self, at: int) -> str:
        digest = self._digests[at * _SHA256 : (at + 1) * _SHA256]
        return "" if digest == _UNKNOWN else digest.hex()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Listing:
    """The files to ingest, and those that are quarantined without being read."""

    files: Sequence[ListedFile]
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
        if isinstance(self.files, ListedFiles):
            return self.files.identities()
        return ((item.file.path, item.file.label, item.identity) for item in self.files)

    @property
    def labels(self) -> set[str]:
        """Distinct labels; none if rows have labels."""
        if isinstance(self.files, ListedFiles):
            return set(self.files.sources.labels) - {""}
        return {item.file.label for item in self.files} - {""}

    @property
    def size(self) -> int:
        """Bytes of all files that will be read."""
        return sum(self.files.sizes if isinstance(self.files, ListedFiles) else (item.size for item in self.files))

    @property
    def records(self) -> int:
        """Records in, as the ledger counts them."""
        return len(self.files) + len(self.quarantined)

    def duplicates(self) -> list[tuple[ListedFile, ...]]:
        """Returns groups of files with the same content; files that were not read are in none."""
        if isinstance(self.files, ListedFiles) and not self.files.has_duplicates():
            return []
        groups: dict[str, list[ListedFile]] = defaultdict(list)
        for item in self.files:
            if item.sha256:
                groups[item.sha256].append(item)
        return [tuple(group) for group in groups.values() if len(group) > 1]


def take(source: FileSource, data: DataPath, cache: HashCache, entries: Entries | None = None) -> Listing:
    """Lists and hashes the files of a source; `entries` is the listing of a remote folder, if there is one already."""
    return hash_found(source.find(data, entries), data, cache)


def hash_found(found: Found, data: DataPath, cache: HashCache) -> Listing:
    """Hashes the files that a source found: their content decides about splits and shards."""

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
            files.append(item.size, item.sha256, item.stat)
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
