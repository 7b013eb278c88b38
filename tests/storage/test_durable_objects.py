"""Files are published to an object store whole or not at all, and their digests are cached by identity."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import pytest

from components.storage import durable
from components.storage.hashing import HashCache, HashedFile
from components.storage.local_copy import local_copy
from components.storage.objects import ObjectPath
from components.storage.paths import files_below


@pytest.fixture
def home(s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectPath:
    """An empty folder in a bucket; temporary files go to an empty folder."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return ObjectPath(f"{s3_bucket}/home")


def write_half(file: Path) -> None:
    """Writes half of a file and fails."""
    file.write_bytes(b"ne")
    raise ValueError("half way")


def test_a_file_is_published(home: ObjectPath, tmp_path: Path) -> None:
    """It is written on this machine first, and appears when the block ends."""
    with durable.publish_file(home / "a/b.csv", aside=home / "aside") as temporary:
        temporary.write_bytes(b"content")
        assert (temporary.name, list(home.files_below())) == ("b.csv", [])

    assert (home / "a/b.csv").read_bytes() == b"content"
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_exception_keeps_the_old_object(home: ObjectPath, tmp_path: Path) -> None:
    """Nothing is uploaded, and nothing is left on this machine."""
    durable.write_bytes(home / "a", b"old", private=True)
    with pytest.raises(ValueError, match="half way"), durable.publish_file(home / "a") as temporary:
        write_half(temporary)

    assert (home / "a").read_bytes() == b"old"
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_folder_is_removed_and_nothing_is_swept(home: ObjectPath) -> None:
    """A store has no leftovers of killed writers; an object with such a name belongs to someone else."""
    names = ["a", "sub/b", ".aside-0123456789ab-a"]
    for name in names:
        durable.write_bytes(home / name, b"x")
    durable.fsync_tree(home)

    assert (durable.sweep(home), sorted(home.files_below())) == ([], sorted(names))
    durable.remove(home / "sub")
    durable.remove(home / "none")
    assert sorted(home.files_below()) == sorted({*names} - {"sub/b"})


def test_a_digest_is_cached_by_identity(home: ObjectPath, s3_server: Any) -> None:
    """Also of an object that was just written: its etag changes with its content, whatever its time."""
    for name in ("a", "b"):
        (home / name).write_bytes(b"first")
    cache = HashCache(None)
    cache.hash_files(home, ["a", "b"])
    (home / "b").write_bytes(b"other")
    # Behind the server's back, and its etag stays: only a file that is read shows it.
    file = s3_server.folder / home.bucket.removeprefix("s3://") / "home" / "a"
    file.write_bytes(b"FIRST")

    assert cache.hash_files(home, ["a", "b"]) == [
        HashedFile(name, 5, hashlib.sha256(content).hexdigest()) for name, content in (("a", b"first"), ("b", b"other"))
    ]


def test_a_local_copy_is_that_of_a_file_or_of_a_folder(home: ObjectPath, tmp_path: Path) -> None:
    """It is deleted afterwards; a local path is its own."""
    for name in ("a", "sub/b", "sub/c d"):
        (home / name).write_bytes(name.encode())

    with local_copy(home / "a") as file, local_copy(home) as folder:
        assert file.read_bytes() == b"a"
        assert {name: (folder / name).read_text() for name in files_below(folder)} == {
            name: name for name in ("a", "sub/b", "sub/c d")
        }
    assert list((tmp_path / "temporary").iterdir()) == []
    with local_copy(tmp_path) as same:
        assert same is tmp_path
