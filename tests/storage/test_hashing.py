"""A file is read once: its digest is remembered until its stat changes, and the stat cannot be faked by mtime."""

import hashlib
import os
import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.storage import hashing
from components.storage.hashing import HashCache, HashedFile, digest_of, sha256_of


def sha256(content: bytes) -> str:
    """Returns what hashlib says."""
    return hashlib.sha256(content).hexdigest()


def fill(folder: Path) -> list[HashedFile]:
    """Writes two files and returns what hashing them must give."""
    (folder / "sub").mkdir()
    (folder / "a.jpg").write_bytes(b"one")
    (folder / "sub" / "b.jpg").write_bytes(b"three")
    return [HashedFile("a.jpg", 3, sha256(b"one")), HashedFile("sub/b.jpg", 5, sha256(b"three"))]


def hash_once(file: Path | None, folder: Path, names: list[str], *, read_only: bool = False) -> list[HashedFile]:
    """Hashes with a cache that is opened and closed for it."""
    cache = HashCache(file, read_only=read_only)
    try:
        return cache.hash_files(folder, names)
    finally:
        cache.close()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder beside the cache file; what is written there counts as settled at once."""
    monkeypatch.setattr(hashing, "_SETTLED_NS", -(10**9))
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_digest_is_that_of_hashlib(size: int, tmp_path: Path) -> None:
    """Whole chunks, a chunk and a byte, and nothing at all are hashed right."""
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    (tmp_path / "file").write_bytes(content)

    assert sha256_of(tmp_path / "file") == sha256(content)


def test_files_come_back_in_order_with_size_and_digest(tmp_path: Path, data: Path) -> None:
    """The result follows the names that were asked for."""
    expected = fill(data)

    assert hash_once(tmp_path / "hashes.db", data, ["sub/b.jpg", "a.jpg"]) == expected[::-1]


def test_no_names_are_no_work(tmp_path: Path, data: Path) -> None:
    """An empty question has an empty answer."""
    assert hash_once(tmp_path / "hashes.db", data, []) == []


def test_a_hit_reads_nothing(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later process knows unchanged files without opening them."""
    expected = fill(data)
    hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"])
    monkeypatch.setattr(hashing, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))

    assert hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"]) == expected


def test_only_the_changed_file_is_read_again(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One new content among known ones costs one read."""
    fill(data)
    hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"])
    (data / "a.jpg").write_bytes(b"two")
    read: list[str] = []

    def counted(path: str) -> str:
        read.append(Path(path).name)
        return sha256_of(path)

    monkeypatch.setattr(hashing, "sha256_of", counted)
    hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"])

    assert read == ["a.jpg"]


def test_without_a_file_digests_are_remembered_for_the_life_of_the_cache(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache in memory saves the second reading too."""
    expected = fill(data)
    cache = HashCache(None)
    cache.hash_files(data, ["a.jpg", "sub/b.jpg"])
    monkeypatch.setattr(hashing, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))

    assert cache.hash_files(data, ["a.jpg", "sub/b.jpg"]) == expected


def test_a_file_changed_in_place_with_its_old_mtime_is_hashed_again(tmp_path: Path, data: Path) -> None:
    """Promise A13: same size and a restored mtime do not hide a change."""
    (data / "a.jpg").write_bytes(b"one")
    before = (data / "a.jpg").stat()
    hash_once(tmp_path / "hashes.db", data, ["a.jpg"])
    with (data / "a.jpg").open("r+b") as stream:
        stream.write(b"two")
    os.utime(data / "a.jpg", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert (data / "a.jpg").stat().st_mtime_ns == before.st_mtime_ns
    assert hash_once(tmp_path / "hashes.db", data, ["a.jpg"]) == [HashedFile("a.jpg", 3, sha256(b"two"))]


def test_a_file_changed_at_once_after_it_was_hashed_is_hashed_again(tmp_path: Path, data: Path) -> None:
    """Promise A13: a change within one tick of the clock of the filesystem is not missed."""
    cache = HashCache(tmp_path / "hashes.db")
    found, expected = [], []
    for turn in range(100):
        for content in (b"a%02d" % turn, b"b%02d" % turn):
            (data / "a.jpg").write_bytes(content)
            found += [item.sha256 for item in cache.hash_files(data, ["a.jpg"])]
            expected.append(sha256(content))

    assert found == expected


def test_a_file_put_in_the_place_of_another_is_hashed_again(tmp_path: Path, data: Path) -> None:
    """Promise A13: a rename over a file, with equal size and mtime, is a change."""
    (data / "a.jpg").write_bytes(b"one")
    (data / "b.jpg").write_bytes(b"two")
    for name in ("a.jpg", "b.jpg"):
        os.utime(data / name, ns=(10**18, 10**18))
    hash_once(tmp_path / "hashes.db", data, ["a.jpg"])
    (data / "b.jpg").rename(data / "a.jpg")

    assert hash_once(tmp_path / "hashes.db", data, ["a.jpg"]) == [HashedFile("a.jpg", 3, sha256(b"two"))]


def test_names_that_are_not_utf8_are_remembered(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names on disk are bytes; such a file is a hit like any other."""
    name = os.fsdecode(b"caf\xe9.jpg")
    (data / name).write_bytes(b"one")
    hash_once(tmp_path / "hashes.db", data, [name])
    monkeypatch.setattr(hashing, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))

    assert hash_once(tmp_path / "hashes.db", data, [name]) == [HashedFile(name, 3, sha256(b"one"))]


def test_a_missing_file_is_an_error(tmp_path: Path, data: Path) -> None:
    """There is no digest of nothing; the error names the file."""
    with pytest.raises(FileNotFoundError) as missing:
        hash_once(tmp_path / "hashes.db", data, ["a.jpg"])

    assert Path(missing.value.filename) == data / "a.jpg"


class TestReadOnly:
    """A dry run changes nothing."""

    def test_no_file_is_created(self, tmp_path: Path, data: Path) -> None:
        """Without a cache file the digests are right and there is still none."""
        expected = fill(data)

        assert hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"], read_only=True) == expected
        assert [path.name for path in tmp_path.iterdir()] == ["data"]

    def test_an_existing_file_stays_as_it_is(self, tmp_path: Path, data: Path) -> None:
        """A file that was hashed meanwhile is not added."""
        fill(data)
        hash_once(tmp_path / "hashes.db", data, ["a.jpg"])
        before = (tmp_path / "hashes.db").read_bytes()
        hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"], read_only=True)

        assert (tmp_path / "hashes.db").read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "hashes.db"]

    @pytest.mark.parametrize("name", ["plain", "a#b", "what?", "50%41", "with space", "é"])
    def test_a_hit_reads_nothing(self, name: str, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is known is used, whatever the folder's name."""
        expected = fill(data)
        hash_once(tmp_path / name / "hashes.db", data, ["a.jpg", "sub/b.jpg"])
        monkeypatch.setattr(hashing, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))

        assert hash_once(tmp_path / name / "hashes.db", data, ["a.jpg", "sub/b.jpg"], read_only=True) == expected


def other_version(file: Path) -> None:
    """Leaves a database with a table of another shape."""
    database = sqlite3.connect(file)
    with database:
        database.execute("CREATE TABLE hashes (path BLOB PRIMARY KEY, digest TEXT)")
    database.close()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("damage", ["empty", "garbage", "other version"])
def test_a_damaged_cache_is_started_afresh(damage: str, read_only: bool, tmp_path: Path, data: Path) -> None:
    """It only saves time: a file that cannot be used costs a reading and never the run."""
    expected, file = fill(data), tmp_path / "hashes.db"
    if damage == "other version":
        other_version(file)
    else:
        file.write_bytes(b"" if damage == "empty" else b"garbage" * 1_000)

    assert hash_once(file, data, ["a.jpg", "sub/b.jpg"], read_only=read_only) == expected


@st.composite
def cut_twice(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Draws one text cut into parts in two ways."""
    text = draw(st.text(max_size=20))
    cuts = st.lists(st.integers(0, len(text)), max_size=4).map(lambda cut: [0, *sorted(cut), len(text)])
    parts = cuts.map(lambda cut: [text[start:end] for start, end in pairwise(cut)])
    return draw(parts), draw(parts)


def test_the_border_between_parts_counts() -> None:
    """["ab", "c"] and ["a", "bc"] are not the same."""
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])


@given(parts=cut_twice())
def test_digests_are_equal_only_for_equal_parts(parts: tuple[list[str], list[str]]) -> None:
    """The same text cut elsewhere has another digest; empty parts count."""
    first, second = parts

    assert (digest_of(first) == digest_of(second)) == (first == second)


def test_names_that_are_not_utf8_have_a_digest() -> None:
    """Two such names that look alike when printed differ."""
    names = [os.fsdecode(name) for name in (b"caf\xe9", b"caf\xe8", "café".encode())]

    assert len({digest_of([name]) for name in names}) == 3
