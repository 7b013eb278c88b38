"""The digest of a remote file is cached by size and time, if both are reliable."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.storage import hashing
from components.storage.hashing import HashCache, HashedFile, sha256_of
from components.storage.remote_path import RemotePath

Remote = Callable[[Path], RemotePath]
HOUR = 3600


@pytest.fixture
def data(ground: Any) -> Path:
    """Two files that were written an hour ago."""
    folder: Path = ground.folder / "set"
    for name in ("a.csv", "sub/b.csv"):
        (folder / name).parent.mkdir(exist_ok=True)
        write(folder / name, name.encode(), HOUR)
    return folder


def write(path: Path, content: bytes, age: float) -> None:
    """Writes a file, with a time so many seconds ago."""
    path.write_bytes(content)
    os.utime(path, (time.time() - age,) * 2)


def hashed(*contents: bytes) -> list[HashedFile]:
    """Returns the expected result for two files."""
    names = ("a.csv", "sub/b.csv")
    return [HashedFile(n, len(c), hashlib.sha256(c).hexdigest()) for n, c in zip(names, contents, strict=True)]


def hash_twice(home: RemotePath, between: Callable[[], object], ground: Any) -> tuple[list[HashedFile], list[str]]:
    """Hashes files, calls a function, hashes again; returns the second result and the files read for it."""
    cache = HashCache(None)
    cache.hash_files(home, ["a.csv", "sub/b.csv"])
    between()
    ground.served.clear()
    return cache.hash_files(home, ["a.csv", "sub/b.csv"]), [name for name, _, _ in ground.served]


def test_a_digest_is_that_of_the_content(ground: Any, remote: Remote) -> None:
    """Also of a file larger than one request."""
    path = ground.folder / "set" / "large.bin"
    path.write_bytes(os.urandom(20 << 20))

    assert sha256_of(remote(path)) == sha256_of(path)
    assert max(size for _, _, size in ground.served) <= 8 << 20


def test_a_hit_reads_nothing(data: Path, remote: Remote, ground: Any) -> None:
    """Size and time are the same."""
    assert hash_twice(remote(data), lambda: None, ground) == (hashed(b"a.csv", b"sub/b.csv"), [])


def test_a_changed_file_is_read_again(data: Path, remote: Remote, ground: Any) -> None:
    """Another time is enough."""
    found, read = hash_twice(remote(data), lambda: write(data / "a.csv", b"A.csv", HOUR - 1), ground)

    assert (found, read) == (hashed(b"A.csv", b"sub/b.csv"), ["a.csv"])


def test_a_file_that_was_just_written_is_not_cached(data: Path, remote: Remote, ground: Any) -> None:
    """A13: times may be whole seconds of another clock, so it could change again and keep its time."""
    write(data / "a.csv", b"first", 1)
    before = (data / "a.csv").stat()

    def change() -> None:
        (data / "a.csv").write_bytes(b"again")
        os.utime(data / "a.csv", ns=(before.st_atime_ns, before.st_mtime_ns))

    found, read = hash_twice(remote(data), change, ground)

    assert (found, read) == (hashed(b"again", b"sub/b.csv"), ["a.csv"])


def test_a_file_without_a_time_is_not_cached(data: Path, remote: Remote, ground: Any) -> None:
    """A13: the size alone is not enough."""
    ground.timed = False
    found, read = hash_twice(remote(data), lambda: write(data / "a.csv", b"A.csv", HOUR), ground)

    assert (found, sorted(read)) == (hashed(b"A.csv", b"sub/b.csv"), ["a.csv", "b.csv"])


def test_the_same_path_on_another_filesystem_is_another_file(data: Path, ground: Any) -> None:
    """The scheme is part of the cache key."""
    cache = HashCache(None)
    cache.hash_files(RemotePath("flat://set"), ["a.csv"])
    ground.served.clear()
    cache.hash_files(RemotePath("tree://set"), ["a.csv"])

    assert [name for name, _, _ in ground.served] == ["a.csv"]
    assert data.is_dir()


def test_large_data_without_an_etag_is_hashed_only_if_it_was_just_written(
    data: Path, remote: Remote, ground: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A13: within two minutes, a file could be written again and keep its time."""
    monkeypatch.setattr(hashing, "HASHED_BYTES", 1)
    write(data / "a.csv", b"first", 1)
    found = HashCache(None).identify_files(remote(data), ["a.csv", "sub/b.csv"])

    assert found == [*hashed(b"first", b"")[:1], HashedFile("sub/b.csv", 9, "")]
    assert [bool(file.stat) for file in found] == [False, True]
    assert [name for name, _, _ in ground.served] == ["a.csv"]
