"""SHA-256 of files, each read once: a hash is remembered as long as the file's stat stays the same.

The stat key holds ctime as well as mtime: a file changed in place can be given its old mtime back, but not its
old ctime, so a hit means the bytes are the ones that were hashed. At an address size and time are all there is; a file
of which no time is told is never remembered.
"""

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from components.storage.paths import DataPath, DataStat, open_whole, stats

_CHUNK, _REMOTE_CHUNK = 256 << 10, 8 << 20
# Bytes of a file, on average, up to which threads cost more than they bring: there is one lock for all of Python.
SMALL = 8 << 10
_TASK, _TASK_BYTES = 64, 8 << 20  # files, and bytes of them, that a thread is handed at once
_ASKED = 500  # files in one query
# A file may be written twice within one tick of the kernel's clock, with one and the same stat. At an address the tick
# may be a second, and the clock another than ours.
_SETTLED_NS, _REMOTE_SETTLED_NS = 20_000_000, 120 * 10**9


@dataclass(frozen=True)
class HashedFile:
    """A file and the digest of its content."""

    path: str  # relative to the folder that was asked about, with forward slashes
    size: int
    sha256: str
    stat: str = field(default="", compare=False)  # as long as it is this, the content is that; empty: it cannot tell


def sha256_of(path: DataPath | str) -> str:
    """Returns the hex digest of a file's content; a text is the path of a file of this machine."""
    if isinstance(path, str | Path):
        return _sha256_here(path)
    digest = hashlib.sha256()
    with open_whole(path) as stream:
        while chunk := stream.read(_REMOTE_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _sha256_here(path: str | Path) -> str:
    # By descriptor: a path and a stream of Python's take longer to make than a small file to read. Into one buffer,
    # which stays in the processor's cache.
    chunk = _buffer()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        digest = hashlib.sha256()
        while size := os.readv(descriptor, (chunk,)):
            digest.update(chunk[:size])
        return digest.hexdigest()
    finally:
        os.close(descriptor)


class _Own(threading.local):
    """What each thread has for itself."""

    chunk: memoryview | None = None


_own = _Own()


def _buffer() -> memoryview:
    if _own.chunk is None:
        _own.chunk = memoryview(bytearray(_CHUNK))
    return _own.chunk


def _hash_all(folder: DataPath, names: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """Hashes many files; those of this machine in threads if they are large enough to be worth a hand-over."""
    if not isinstance(folder, Path):
        return _in_threads([folder / name for name in names], 1)
    paths = [f"{folder}/{name}" for name in names]
    if sum(sizes) < SMALL * len(sizes):
        return [sha256_of(path) for path in paths]
    return _in_threads(paths, max(1, min(_TASK, _TASK_BYTES * len(sizes) // max(1, sum(sizes)))))


def _in_threads(paths: Sequence[DataPath | str], some: int) -> list[str]:
    """Hashes files, some of them a hand-over."""

    def each(start: int) -> list[str]:
        return [sha256_of(path) for path in paths[start : start + some]]

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return [found for task in pool.map(each, range(0, len(paths), some)) for found in task]


def digest_of(parts: Iterable[str]) -> str:
    """Returns the hex digest of a sequence of strings, with their borders."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


class HashCache:
    """Digests by absolute path and stat, in a small sqlite file; without a file it only remembers for its life."""

    def __init__(self, file: Path | None, *, read_only: bool = False) -> None:
        """Opens `file`, or starts afresh when it is absent, unreadable or of another version."""
        self._writable = file is None or not read_only
        try:
            self._db = _open(file, read_only)
        except sqlite3.DatabaseError:
            self._db = _open_anew(file, read_only)

    def hash_files(self, folder: DataPath, names: Iterable[str]) -> list[HashedFile]:
        """Hashes `folder/name` for each name; only files with an unknown stat are read."""
        names = list(names)
        paths = [f"{folder}/{name}" for name in names]
        found = [os.stat(path) for path in paths] if isinstance(folder, Path) else stats(folder, names)  # noqa: PTH116
        keys = [stat_key(stat) for stat in found]
        now = time.time_ns()
        known = self._look_up(paths, keys)
        missing = [index for index, digest in enumerate(known) if digest is None]
        fresh = _hash_all(folder, [names[index] for index in missing], [found[index].st_size for index in missing])
        for index, digest in zip(missing, fresh, strict=True):
            known[index] = digest
        settled = [_is_settled(stat, now) for stat in found]
        self._remember((paths[index], keys[index], known[index]) for index in missing if settled[index])
        return [
            HashedFile(name, stat.st_size, digest or "", key if sure else "")
            for name, stat, digest, key, sure in zip(names, found, known, keys, settled, strict=True)
        ]

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def _look_up(self, paths: Sequence[str], keys: Sequence[str]) -> list[str | None]:
        """Returns the digests of files whose stat is known, many at a time: each query locks the file anew."""
        names = [_text(path) for path in paths]
        known: dict[bytes, tuple[str, str]] = {}
        for start in range(0, len(names), _ASKED):
            some = names[start : start + _ASKED]
            query = f"SELECT path, stat, sha256 FROM hashes WHERE path IN ({', '.join('?' * len(some))})"  # noqa: S608
            known.update((path, (stat, digest)) for path, stat, digest in self._db.execute(query, some))
        found = [known.get(name) for name in names]
        return [each[1] if each and each[0] == key else None for each, key in zip(found, keys, strict=True)]

    def _remember(self, rows: Iterable[tuple[str, str, str | None]]) -> None:
        if not self._writable:
            return
        encoded = [(_text(path), key, digest) for path, key, digest in rows]
        # A full disk is for those to report who have something to lose.
        with suppress(sqlite3.OperationalError), self._db:
            self._db.executemany("INSERT OR REPLACE INTO hashes VALUES (?, ?, ?)", encoded)


def _open(file: Path | None, read_only: bool) -> sqlite3.Connection:
    if file is None or (read_only and not file.exists()):
        database = sqlite3.connect(":memory:")
    elif read_only:
        database = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(file)
    if not read_only or file is None or not file.exists():
        database.execute("CREATE TABLE IF NOT EXISTS hashes (path BLOB PRIMARY KEY, stat TEXT, sha256 TEXT)")
    database.execute("SELECT path, stat, sha256 FROM hashes LIMIT 1")  # fails on a damaged file, or another version
    return database


def _open_anew(file: Path | None, read_only: bool) -> sqlite3.Connection:
    """Does without a damaged cache: it only saves time."""
    if file is not None and not read_only:
        file.unlink(missing_ok=True)
        return _open(file, read_only)
    return _open(None, read_only)


def stat_key(stat: DataStat) -> str:
    """Returns what changes whenever a file is written, moved into place or given another time."""
    if not isinstance(stat, os.stat_result):
        return f"{stat.st_size}:{stat.st_mtime_ns}"
    return f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"


def _is_settled(stat: DataStat, now: int) -> bool:
    """Whether a file that is written again will have another stat."""
    if isinstance(stat, os.stat_result):
        return stat.st_ctime_ns < now - _SETTLED_NS
    return 0 < stat.st_mtime_ns < now - _REMOTE_SETTLED_NS


def _text(path: str) -> bytes:
    # Names on disk are bytes; sqlite's TEXT refuses the ones that are not UTF-8.
    return os.fsencode(path)
