"""SHA-256 of files, each read once: a digest is cached as long as the stat of the file stays the same.

    small input ─► hash_files ─► content, so a touched or copied file is the same one
    tables ─► identify_files ─┬─ on a store ─────────────► what the store says: size and etag
                              ├─ more than HASHED_BYTES ─► size, times and inode, unless a file was just written
                              └─ else ───────────────────► hash_files

The stat key contains ctime as well as mtime: a file changed in place can be given its old mtime again, but not its old
ctime, so a hit means that the bytes are those that were hashed. An object on a store has an identity, its etag, which
changes with the content. On other filesystems, size and time are all there is; a file without a time is never cached.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from components.storage.cache import Cache
from components.storage.paths import DataPath, DataStat, open_whole, stats
from components.storage.uri_path import LONG_REQUEST

HASHED_BYTES = 10 << 30  # local tables up to this size are identified by content, which takes 6 CPU seconds, once
_TABLE = "hashes_2"
_CHUNK = 256 << 10
_REQUESTS = 16  # to a store at once
_GROUP = 64  # files per task: a hand-over to a thread takes as long as hashing a small file
_SMALL = 16 << 10  # bytes: threads that hash files of this size on average wait for each other's Python code
# A file may be written twice within one tick of the kernel's clock and keep its stat. On a remote filesystem the tick
# may be one second, and its clock may differ from ours.
_SETTLED_NS, _REMOTE_SETTLED_NS = 20_000_000, 120 * 10**9
_PATIENCE = 1.0  # seconds until a local file that stays young is hashed: it is being written, or a clock is wrong


@dataclass(frozen=True)
class HashedFile:
    """A file and the digest of its content."""

    path: str  # relative to the hashed folder, with forward slashes
    size: int
    digest: str  # its SHA-256, or the checksum of a shard; empty if it was not read
    stat: str = field(default="", compare=False)  # while it stays the same, so does the content; empty: unknown


class HashCache:
    """Digests by path and stat, in a file or in memory."""

    def __init__(self, file: Path | None, *, read_only: bool = False) -> None:
        """Opens the cache in `file`; without a file, digests are kept in memory."""
        self._cache = Cache(file, _TABLE, read_only=read_only)

    def identify_files(
        self, folder: DataPath, names: Iterable[str], known: Sequence[DataStat] | None = None
    ) -> list[HashedFile]:
        """Returns size and identity of each file in `folder`; large data is not read, and then has no digest.

        Which identity is used depends on the place and the size of the data alone, so it is the same in every run. The
        exception is a file that was just written and may be written again without a new stat: it is hashed.

        Args:
            folder: the folder.
            names: paths relative to it.
            known: stats of the files, if they were just taken.
        """
        names = list(names)
        found = known or stats(folder, names)
        is_large = sum(stat.st_size for stat in found) > HASHED_BYTES
        if all(_has_identity(stat) or (is_large and stat.st_mtime_ns) for stat in found):
            return self._by_stat(folder, names, found)
        return self.hash_files(folder, names, found)

    def _by_stat(self, folder: DataPath, names: Sequence[str], found: Sequence[DataStat]) -> list[HashedFile]:
        latest, young = _settle(folder, names, found)
        hashed = self.hash_files(folder, [names[at] for at in young], [latest[at] for at in young])
        unsettled = dict(zip(young, hashed, strict=True))
        return [
            unsettled.get(at) or HashedFile(name, stat.st_size, "", stat_key(stat))
            for at, (name, stat) in enumerate(zip(names, latest, strict=True))
        ]

    def hash_files(
        self, folder: DataPath, names: Iterable[str], known: Sequence[DataStat] | None = None
    ) -> list[HashedFile]:
        """Returns size and digest of each file in `folder`; files with an unknown stat are read.

        Args:
            folder: the folder.
            names: paths relative to it.
            known: stats of the files, if they were just taken.
        """
        names = list(names)
        keys = [os.fsencode(f"{folder}/{name}") for name in names]
        found, now = known or stats(folder, names), time.time_ns()
        stat_keys = [stat_key(stat) for stat in found]
        cached = self._cache.get(keys)
        digests = [_digest(cached.get(key, b""), stat) for key, stat in zip(keys, stat_keys, strict=True)]
        missing = [index for index, digest in enumerate(digests) if not digest]
        unread = [(names[index], found[index].st_size) for index in missing]
        for index, digest in zip(missing, _hash_all(folder, unread), strict=True):
            digests[index] = digest
        settled = [_is_settled(stat, now) for stat in found]
        new = {keys[index]: f"{stat_keys[index]} {digests[index]}".encode() for index in missing if settled[index]}
        self._cache.put(new)
        return [
            HashedFile(name, stat.st_size, digest, key if sure else "")
            for name, stat, digest, key, sure in zip(names, found, digests, stat_keys, settled, strict=True)
        ]

    def checksum_files(self, folder: Path, names: Sequence[str], checksum: Callable[[Path], str]) -> list[HashedFile]:
        """Returns size and checksum of each file; files with an unknown stat are read."""
        found, now = stats(folder, names), time.time_ns()
        keys = [_checksum_key(folder, name) for name in names]
        cached = self._cache.get(keys)
        known = [_digest(cached.get(key, b""), stat_key(stat)) for key, stat in zip(keys, found, strict=True)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            read = dict(pool.map(lambda name: (name, checksum(folder / name)), _without(known, names)))
        self._remember(folder, read, dict(zip(names, found, strict=True)), now)
        return [
            HashedFile(name, stat.st_size, digest or read[name])
            for name, stat, digest in zip(names, found, known, strict=True)
        ]

    def remember_checksums(self, folder: Path, checksums: Mapping[str, str]) -> None:
        """Keeps the checksums of files that were just written, so that they are not read for them."""
        found, now = stats(folder, list(checksums)), time.time_ns()
        self._remember(folder, checksums, dict(zip(checksums, found, strict=True)), now)

    def _remember(self, folder: Path, checksums: Mapping[str, str], found: Mapping[str, DataStat], now: int) -> None:
        """Keeps checksums of files whose stats were taken at `now`, before the files were read."""
        settled = {name: digest for name, digest in checksums.items() if _is_settled(found[name], now)}
        self._cache.put(
            {
                _checksum_key(folder, name): f"{stat_key(found[name])} {digest}".encode()
                for name, digest in settled.items()
            }
        )

    def close(self) -> None:
        """Closes the file."""
        self._cache.close()


def sha256_of(path: DataPath | str) -> str:
    """Returns the hex digest of a file's content; a string is a path on this machine."""
    digest = hashlib.sha256()
    if not isinstance(path, str | Path):
        with open_whole(path) as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()
    # Not by Path.open: making the path and the stream takes as long as hashing a small file.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
        return digest.hexdigest()
    finally:
        os.close(descriptor)


def digest_of(parts: Iterable[str]) -> str:
    """Returns the hex digest of a sequence of strings; ["ab", "c"] and ["a", "bc"] differ."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def stat_key(stat: DataStat) -> str:
    """Returns a text that changes whenever a file is written; an object has another one with another content."""
    if not isinstance(stat, os.stat_result):
        return f"{stat.st_size}:{stat.identity.replace(' ', '_') or stat.st_mtime_ns}"
    return f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"


def _checksum_key(folder: Path, name: str) -> bytes:
    return b"checksum " + os.fsencode(f"{folder}/{name}")


def _without(digests: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns the names that have no digest."""
    return [name for name, digest in zip(names, digests, strict=True) if not digest]


def _has_identity(stat: DataStat) -> bool:
    return not isinstance(stat, os.stat_result) and bool(stat.identity)


def _settle(
    folder: DataPath, names: Sequence[str], found: Sequence[DataStat]
) -> tuple[Sequence[DataStat], Sequence[int]]:
    """Returns stats of files, and which files may be written again without a new one.

    Local stats are taken again until there are no such files, for at most `_PATIENCE`: a clock may be wrong.
    """
    latest, deadline = list(found), time.monotonic() + _PATIENCE
    young: Sequence[int] = range(len(latest))
    while True:
        now = time.time_ns()
        young = [at for at in young if not _is_settled(latest[at], now)]
        if not young or not isinstance(folder, Path) or time.monotonic() > deadline:
            return latest, young
        time.sleep(_SETTLED_NS / 10**9)
        for at, stat in zip(young, stats(folder, [names[at] for at in young]), strict=True):
            latest[at] = stat


def _digest(cached: bytes, key: str) -> str:
    """Returns the digest of a cache entry if it has this stat key; else an empty string."""
    stat, _, digest = cached.decode().partition(" ")
    return digest if stat == key else ""


def _hash_all(folder: DataPath, files: Sequence[tuple[str, int]]) -> list[str]:
    """Hashes files of known sizes: small local ones one after another, others on all cores or in more threads."""
    is_local, threads = isinstance(folder, Path), os.cpu_count() or 1
    if is_local and sum(size for _, size in files) < _SMALL * len(files):
        return [_hash_one(folder, *file) for file in files]
    if not is_local:
        threads = max(threads, _REQUESTS)
    group = max(1, min(_GROUP, len(files) // (4 * threads)))
    tasks = [files[start : start + group] for start in range(0, len(files), group)]
    with ThreadPoolExecutor(threads) as pool:
        done = pool.map(lambda task: [_hash_one(folder, *file) for file in task], tasks)
        return [digest for digests in done for digest in digests]


def _hash_one(folder: DataPath, name: str, size: int) -> str:
    if isinstance(folder, Path):
        return sha256_of(f"{folder}/{name}")
    path = folder / name
    if size > LONG_REQUEST:
        return sha256_of(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()  # one request, and not one for its size as well


def _is_settled(stat: DataStat, now: int) -> bool:
    """Whether the file will have another stat if it is written again."""
    if isinstance(stat, os.stat_result):
        return stat.st_ctime_ns < now - _SETTLED_NS
    return bool(stat.identity) or 0 < stat.st_mtime_ns < now - _REMOTE_SETTLED_NS
