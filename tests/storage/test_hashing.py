"""A file is read once: its digest is cached until its stat changes, which a restored mtime cannot prevent."""

import hashlib
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.storage import hashing
from components.storage.hashing import HashCache, HashedFile, digest_of, sha256_of


def sha256(content: bytes) -> str:
    """Returns the digest of bytes."""
    return hashlib.sha256(content).hexdigest()


def fill(folder: Path) -> list[HashedFile]:
    """Writes two files and returns the expected result of hashing them."""
    (folder / "sub").mkdir()
    (folder / "a.jpg").write_bytes(b"one")
    (folder / "sub" / "b.jpg").write_bytes(b"three")
    return [HashedFile("a.jpg", 3, sha256(b"one")), HashedFile("sub/b.jpg", 5, sha256(b"three"))]


def hash_once(file: Path | None, folder: Path, names: list[str], *, read_only: bool = False) -> list[HashedFile]:
    """Hashes files with a cache that is opened and closed for it."""
    cache = HashCache(file, read_only=read_only)
    try:
        return cache.hash_files(folder, names)
    finally:
        cache.close()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder beside the cache file; files written there count as settled at once."""
    monkeypatch.setattr(hashing, "_SETTLED_NS", -(10**9))
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("size", [0, 1, (256 << 10) - 1, 256 << 10, (256 << 10) + 1])
def test_a_file_is_hashed_in_chunks(size: int, tmp_path: Path) -> None:
    """Files of no byte, one chunk, and one byte more or less have the right digest."""
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    (tmp_path / "file").write_bytes(content)

    assert sha256_of(tmp_path / "file") == sha256(content)


def test_files_come_back_in_order_with_size_and_digest(tmp_path: Path, data: Path) -> None:
    """In the order of the names."""
    expected = fill(data)

    assert hash_once(tmp_path / "hashes.db", data, ["sub/b.jpg", "a.jpg"]) == expected[::-1]


def test_no_names_give_no_result(tmp_path: Path, data: Path) -> None:
    """And no error."""
    assert hash_once(tmp_path / "hashes.db", data, []) == []


def test_a_hit_reads_nothing(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later process does not open unchanged files."""
    expected = fill(data)
    hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"])
    monkeypatch.setattr(hashing, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))

    assert hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"]) == expected


def test_only_the_changed_file_is_read_again(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other digest comes from the cache."""
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


def test_without_a_file_digests_are_cached_in_memory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the life of the cache."""
    expected = fill(data)
    cache = HashCache(None)
    cache.hash_files(data, ["a.jpg", "sub/b.jpg"])
    monkeypatch.setattr(hashing, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))

    assert cache.hash_files(data, ["a.jpg", "sub/b.jpg"]) == expected


def test_a_file_changed_in_place_with_its_old_mtime_is_hashed_again(tmp_path: Path, data: Path) -> None:
    """Promise A13: neither the same size nor a restored mtime hides a change."""
    (data / "a.jpg").write_bytes(b"one")
    before = (data / "a.jpg").stat()
    hash_once(tmp_path / "hashes.db", data, ["a.jpg"])
    with (data / "a.jpg").open("r+b") as stream:
        stream.write(b"two")
    os.utime(data / "a.jpg", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert (data / "a.jpg").stat().st_mtime_ns == before.st_mtime_ns
    assert hash_once(tmp_path / "hashes.db", data, ["a.jpg"]) == [HashedFile("a.jpg", 3, sha256(b"two"))]


def test_a_file_changed_right_after_it_was_hashed_is_hashed_again(tmp_path: Path, data: Path) -> None:
    """Promise A13: also within one tick of the filesystem's clock."""
    cache = HashCache(tmp_path / "hashes.db")
    found, expected = [], []
    for turn in range(100):
        for content in (b"a%02d" % turn, b"b%02d" % turn):
            (data / "a.jpg").write_bytes(content)
            found += [item.digest for item in cache.hash_files(data, ["a.jpg"])]
            expected.append(sha256(content))

    assert found == expected


def test_a_replaced_file_is_hashed_again(tmp_path: Path, data: Path) -> None:
    """Promise A13: a rename over a file, with equal size and mtime, is a change."""
    (data / "a.jpg").write_bytes(b"one")
    (data / "b.jpg").write_bytes(b"two")
    for name in ("a.jpg", "b.jpg"):
        os.utime(data / name, ns=(10**18, 10**18))
    hash_once(tmp_path / "hashes.db", data, ["a.jpg"])
    (data / "b.jpg").rename(data / "a.jpg")

    assert hash_once(tmp_path / "hashes.db", data, ["a.jpg"]) == [HashedFile("a.jpg", 3, sha256(b"two"))]


def test_names_that_are_not_utf8_are_cached(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names on disk are bytes."""
    name = os.fsdecode(b"caf\xe9.jpg")
    (data / name).write_bytes(b"one")
    hash_once(tmp_path / "hashes.db", data, [name])
    monkeypatch.setattr(hashing, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))

    assert hash_once(tmp_path / "hashes.db", data, [name]) == [HashedFile(name, 3, sha256(b"one"))]


def test_a_missing_file_is_an_error(tmp_path: Path, data: Path) -> None:
    """Which names the file."""
    with pytest.raises(FileNotFoundError) as missing:
        hash_once(tmp_path / "hashes.db", data, ["a.jpg"])

    assert Path(missing.value.filename) == data / "a.jpg"


def test_a_dry_run_creates_no_file(tmp_path: Path, data: Path) -> None:
    """The digests are the same."""
    expected = fill(data)

    assert hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"], read_only=True) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_damaged_cache_costs_a_second_reading_only(tmp_path: Path, data: Path) -> None:
    """The digests are right, and cached again."""
    expected = fill(data)
    (tmp_path / "hashes.db").write_bytes(b"garbage" * 1_000)
    found = [hash_once(tmp_path / "hashes.db", data, ["a.jpg", "sub/b.jpg"]) for _ in range(2)]

    assert found == [expected, expected]


@st.composite
def cut_twice(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Draws one string divided into parts in two ways."""
    text = draw(st.text(max_size=20))
    cuts = st.lists(st.integers(0, len(text)), max_size=4).map(lambda cut: [0, *sorted(cut), len(text)])
    parts = cuts.map(lambda cut: [text[start:end] for start, end in pairwise(cut)])
    return draw(parts), draw(parts)


@given(parts=cut_twice())
def test_digests_are_equal_only_for_equal_parts(parts: tuple[list[str], list[str]]) -> None:
    """Where a string is divided counts, and so do empty parts."""
    first, second = parts

    assert (digest_of(first) == digest_of(second)) == (first == second)


def test_names_that_are_not_utf8_have_a_digest() -> None:
    """Names that differ in one such byte have different digests."""
    names = [os.fsdecode(name) for name in (b"caf\xe9", b"caf\xe8", "café".encode())]

    assert len({digest_of([name]) for name in names}) == 3


class TestIdentity:
    """Which identity a file has depends on the place and the size of all files alone."""

    def test_small_data_is_identified_by_content(self, tmp_path: Path) -> None:
        """So a touched or copied file is the same one."""
        expected = fill(tmp_path)

        assert HashCache(None).identify_files(tmp_path, ["a.jpg", "sub/b.jpg"]) == expected

    def test_large_data_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Size, times and inode identify it, the same in every run."""
        fill(tmp_path)
        monkeypatch.setattr(hashing, "HASHED_BYTES", 7)
        monkeypatch.setattr(hashing, "sha256_of", None)  # would be called
        found = HashCache(None).identify_files(tmp_path, ["a.jpg", "sub/b.jpg"])
        stats = [(tmp_path / name).stat() for name in ("a.jpg", "sub/b.jpg")]

        assert found == [HashedFile("a.jpg", 3, ""), HashedFile("sub/b.jpg", 5, "")]
        assert [file.stat for file in found] == [
            f"{each.st_size}:{each.st_mtime_ns}:{each.st_ctime_ns}:{each.st_ino}" for each in stats
        ]

    def test_large_data_that_is_edited_with_its_old_mtime_is_noticed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A13: a write changes the ctime, which nobody can set."""
        fill(tmp_path)
        monkeypatch.setattr(hashing, "HASHED_BYTES", 1)
        (before,) = HashCache(None).identify_files(tmp_path, ["a.jpg"])
        old = (tmp_path / "a.jpg").stat()
        (tmp_path / "a.jpg").write_bytes(b"two")
        os.utime(tmp_path / "a.jpg", ns=(old.st_atime_ns, old.st_mtime_ns))
        (after,) = HashCache(None).identify_files(tmp_path, ["a.jpg"])

        assert (after.size, after.digest) == (before.size, before.digest) == (3, "")
        assert after.stat != before.stat

    def test_large_data_with_a_time_in_the_future_is_hashed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A13: it could be written again without a new stat."""
        expected = fill(tmp_path)
        monkeypatch.setattr(hashing, "HASHED_BYTES", 7)
        monkeypatch.setattr(hashing, "_PATIENCE", 0.0)
        past = (tmp_path / "a.jpg").stat().st_ctime_ns - 10**9
        monkeypatch.setattr(time, "time_ns", lambda: past)  # a clock that is behind that of the files
        found = HashCache(None).identify_files(tmp_path, ["a.jpg", "sub/b.jpg"])

        assert found == expected
        assert [file.stat for file in found] == ["", ""]


def test_a_file_that_was_just_written_before_a_long_reading_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might have been written once more within one tick of the clock, after its first bytes were read."""
    (tmp_path / "shard").write_bytes(b"one")
    now, read = [(tmp_path / "shard").stat().st_ctime_ns], list[Path]()
    monkeypatch.setattr(time, "time_ns", lambda: now[0])

    def slowly(path: Path) -> str:
        read.append(path)
        now[0] += 10**9
        return "crc32c:00000000"

    cache = HashCache(None)
    for _ in range(3):
        cache.checksum_files(tmp_path, ["shard"], slowly)

    assert len(read) == 2
