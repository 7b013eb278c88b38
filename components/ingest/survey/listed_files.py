"""Source files in columns: path, class, size, digest, stat; ten million of them are not ten million Python objects.

    listing ─► every n-th file ─► the files of one work unit ─► bytes, which travel to a worker

So each work unit has files of all classes, although a listing has one class after the other, and units have the same
number of files, one more or less. Nothing but the listing decides about them: neither workers nor contents.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import orjson

from components.ingest.sources import SourceFile, SourceFiles
from components.strings import Strings

if TYPE_CHECKING:
    from components.storage.entries import Entries

_SHA256 = 32  # bytes
_UNKNOWN = bytes(_SHA256)
_BLOCK = 1_024  # digests that are converted together
_LENGTH = struct.Struct("<I")


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
        self.sizes, self._digests = array("q"), bytearray()
        self._stats: Strings | _StoreStats = Strings()
        for item in files:
            self.sources.append(item.file.path, item.file.label)
            self.append(item.size, item.sha256, item.stat)

    @staticmethod
    def on_store(sources: SourceFiles, entries: "Entries") -> "ListedFiles":
        """Returns files that a store has identified: their columns are those of its listing, not copies of them."""
        files = ListedFiles(sources=sources)
        files.sizes, files._stats = entries.sizes, _StoreStats(entries)
        return files

    def append(self, size: int, sha256: str, stat: str) -> None:
        """Adds size, digest and stat of the next file."""
        if sha256 and not self._digests:
            self._digests = bytearray(_SHA256 * len(self.sizes))  # of no file before it
        self.sizes.append(size)
        if self._digests or sha256:
            self._digests += bytes.fromhex(sha256) if sha256 else _UNKNOWN
        if isinstance(self._stats, Strings):
            self._stats.append(stat)

    @property
    def stats(self) -> Sequence[str]:
        """Stat of each file: of one that was hashed, or that of the store."""
        return self._stats

    def every(self, first: int, step: int) -> "ListedFiles":
        """Returns every `step`-th file, from number `first` on."""
        files = ListedFiles(sources=self.sources.every(first, step))
        files.sizes = self.sizes[first::step]
        files._stats = self._stats.every(first, step)
        starts = range(first * _SHA256, len(self._digests), step * _SHA256)
        files._digests = bytearray().join(self._digests[at : at + _SHA256] for at in starts)
        return files

    def to_bytes(self) -> bytes:
        """Returns all columns; `from_bytes` reads them, on a machine of the same kind."""
        stats = self._stats if isinstance(self._stats, Strings) else Strings(self._stats)
        columns = [*self.sources.columns(), self.sizes.tobytes(), bytes(self._digests), *stats.columns()]
        header = orjson.dumps([self.sources.labels, *map(len, columns)])
        return b"".join([_LENGTH.pack(len(header)), header, *columns])

    @staticmethod
    def from_bytes(content: bytes) -> "ListedFiles":
        """Returns the files that `to_bytes` has packed."""
        (length,) = _LENGTH.unpack_from(content)
        at = _LENGTH.size + length
        labels, *sizes = orjson.loads(content[_LENGTH.size : at])
        columns = []
        for size in sizes:
            columns.append(content[at : at + size])
            at += size
        files = ListedFiles(sources=SourceFiles.of_columns(columns[:3], labels))
        files.sizes, files._digests = array("q", columns[3]), bytearray(columns[4])
        files._stats = Strings.of_columns(columns[5], columns[6])
        return files

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

    def identities(self) -> Iterator[str]:
        """Yields the identity of each file; making a `ListedFile` each would take three times as long."""
        if not self._digests:
            return (f"stat {stat}" for stat in self._stats)
        return (sha256 or f"stat {stat}" for sha256, stat in zip(self._each_digest(), self._stats, strict=True))

    def _each_digest(self) -> Iterator[str]:
        """Yields the digest of each file; converted in blocks, which takes 0.6 of the time."""
        if not self._digests:
            yield from ("" for _ in self.sizes)
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


class _StoreStats(Sequence[str]):
    """The stats of files that a store has listed, made when they are asked for; see `hashing.stat_key`."""

    def __init__(self, entries: "Entries") -> None:
        self._sizes, self._identities = entries.sizes, entries.identities

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return _stat(self._sizes[index], self._identities[index])

    def __iter__(self) -> Iterator[str]:
        return (
            f"{size}:{identity.replace(' ', '_')}" for size, identity in zip(self._sizes, self._identities, strict=True)
        )

    def every(self, first: int, step: int) -> Strings:
        """Returns every `step`-th stat, from number `first` on."""
        stats = map(_stat, self._sizes[first::step], self._identities.every(first, step))
        return Strings.of_encoded([stat.encode() for stat in stats])


def _stat(size: int, identity: str) -> str:
    return f"{size}:{identity.replace(' ', '_')}"
