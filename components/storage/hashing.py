"""SHA-256 of files, each read once: a digest is cached as long as the stat of the file stays the same.

The stat key contains ctime as well as mtime: a file changed in place can be given its old mtime again, but not its old
ctime, so a hit means that the bytes are those that were hashed. An object on a store has an identity, its etag, which
changes with the content. On other filesystems, size and time are all there is; a file without a time is never cached.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from components.storage.cache import Cache
from components.storage.paths import DataPath, DataStat, open_whole, stats
from components.storage.uri_path import LONG_REQUEST

_TABLE = "hashes_2"
_CHUNK = 256 << 10
_REQUESTS = 16  # to a store at once
_GROUP = 64  # files per task: a hand-over to a thread takes as long as hashing a small file
# A file may be written twice within one tick of the kernel's clock and keep its stat. On a remote filesystem the tick
# may be one second, and its clock may differ from ours.
_SETTLED_NS, _REMOTE_SETTLED_NS = 20_000_000, 120 * 10**9


@dataclass(frozen=True)
class HashedFile:
    """A file and the digest of its content."""

    path: str  # relative to the hashed folder, with forward slashes
    size: int
    sha256: str
    stat: str = field(default="", compare=False)  # while it stays the same, so does the content; empty: unknown


class HashCache:
    """Digests by path and stat, in a file or in memory."""

    def __init__(self, file: Path | None, *, read_only: bool = False) -> None:
        """Opens the cache in `file`; without a file, digests are kept in memory."""
        self._cache = Cache(file, _TABLE, read_only=read_only)

    def hash_files(self, folder: DataPath, names: Iterable[str]) -> list[HashedFile]:
        """Returns size and digest of each file in `folder`; files with an unknown stat are read."""
        names = list(names)
        keys = [os.fsencode(f"{folder}/{name}") for name in names]
        found, now = stats(folder, names), time.time_ns()
        stat_keys = [stat_key(stat) for stat in found]
        cached = self._cache.get(keys)
        digests = [_digest(cached.get(key, b""), stat) for key, stat in zip(keys, stat_keys, strict=True)]
        missing = [index for index, digest in enumerate(digests) if not digest]
        unread = [(folder / names[index], found[index].st_size) for index in missing]
        for index, digest in zip(missing, _hash_all(unread), strict=True):
            digests[index] = digest
        settled = [_is_settled(stat, now) for stat in found]
        new = {keys[index]: f"{stat_keys[index]} {digests[index]}".encode() for index in missing if settled[index]}
        self._cache.put(new)
        return [
            HashedFile(name, stat.st_size, digest, key if sure else "")
            for name, stat, digest, key, sure in zip(names, found, digests, stat_keys, settled, strict=True)
        ]

    def close(self) -> None:
        """Closes the file."""
        self._cache.close()


def sha256_of(path: DataPath) -> str:
    """Returns the hex digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb", 0) if isinstance(path, Path) else open_whole(path) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of(parts: Iterable[str]) -> str:
    """Returns the hex digest of a sequence of strings; ["ab", "c"] and ["a", "bc"] differ."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def stat_key(stat: DataStat) -> str:
    """Returns a text that changes whenever a file is written, replaced or given another time."""
    if not isinstance(stat, os.stat_result):
        return ":".join(filter(None, (str(stat.st_size), str(stat.st_mtime_ns), stat.identity.replace(" ", "_"))))
    return f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"


def _digest(cached: bytes, key: str) -> str:
    """Returns the digest of a cache entry if it has this stat key; else an empty string."""
    stat, _, digest = cached.decode().partition(" ")
    return digest if stat == key else ""


def _hash_all(files: Sequence[tuple[DataPath, int]]) -> list[str]:
    """Hashes files of known sizes: local ones in as many threads as there are cores, remote ones in more."""
    threads = os.cpu_count() or 1
    if files and not isinstance(files[0][0], Path):
        threads = max(threads, _REQUESTS)
    group = max(1, min(_GROUP, len(files) // (4 * threads)))
    tasks = [files[start : start + group] for start in range(0, len(files), group)]
    with ThreadPoolExecutor(threads) as pool:
        done = pool.map(lambda task: [_hash_one(*file) for file in task], tasks)
        return [digest for digests in done for digest in digests]


def _hash_one(path: DataPath, size: int) -> str:
    if isinstance(path, Path) or size > LONG_REQUEST:
        return sha256_of(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()  # one request, and not one for its size as well


def _is_settled(stat: DataStat, now: int) -> bool:
    """Whether the file will have another stat if it is written again."""
    if isinstance(stat, os.stat_result):
        return stat.st_ctime_ns < now - _SETTLED_NS
    return bool(stat.identity) or 0 < stat.st_mtime_ns < now - _REMOTE_SETTLED_NS
