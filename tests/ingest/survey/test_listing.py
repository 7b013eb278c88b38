"""The digest of the data changes with any path, label or content, and with nothing else."""

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import BadInput
from components.ingest.sources import FileRecord, Found, SourceFile, SourceFiles
from components.ingest.sources.image_folder import SOURCE
from components.ingest.survey import listed_files, listing
from components.ingest.survey.listed_files import ListedFile, ListedFiles
from components.ingest.survey.listing import Listing
from components.records.quarantine import Quarantined
from components.settings.ingest import Ingest
from components.storage.entries import Entries
from components.storage.hashing import HashCache
from components.storage.paths import DataPath
from components.storage.uri_path import RemoteStat

Take = Callable[[Path], Listing]


@pytest.fixture
def data(data: Path) -> Path:
    """Two cats and a dog."""
    for name, content in {"cats/1.jpg": b"one", "cats/2.jpg": b"two", "dogs/3.jpg": b"three"}.items():
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(content)
    return data


def test_every_file_is_listed_with_size_and_digest(data: Path, take: Take) -> None:
    """Quarantined and ignored files are listed as well."""
    (data / "4.jpg").write_bytes(b"four")
    (data / "README").write_bytes(b"read me")

    assert take(data) == Listing(
        files=ListedFiles(
            ListedFile(SourceFile(path, path[:4]), len(content), hashlib.sha256(content).hexdigest())
            for path, content in (("cats/1.jpg", b"one"), ("cats/2.jpg", b"two"), ("dogs/3.jpg", b"three"))
        ),
        quarantined=(Quarantined("4.jpg", "not inside a class folder"),),
        ignored=("README",),
    )


def test_records_count_files_and_quarantined_ones(data: Path, take: Take) -> None:
    """In the ledger a quarantined file is a record in."""
    (data / "4.jpg").write_bytes(b"four")

    assert take(data).records == 4


def move_to_another_class(data: Path) -> None:
    """Gives one image another label."""
    (data / "cats" / "1.jpg").rename(data / "dogs" / "1.jpg")


def rename(data: Path) -> None:
    """Keeps label and content."""
    (data / "cats" / "1.jpg").rename(data / "cats" / "9.jpg")


def exchange(data: Path) -> None:
    """Keeps paths and contents, but swaps the contents."""
    (data / "cats" / "1.jpg").write_bytes(b"three")
    (data / "dogs" / "3.jpg").write_bytes(b"one")


def alter(data: Path) -> None:
    """Changes one byte and keeps the mtime."""
    before = (data / "cats" / "1.jpg").stat()
    (data / "cats" / "1.jpg").write_bytes(b"onE")
    os.utime(data / "cats" / "1.jpg", ns=(before.st_atime_ns, before.st_mtime_ns))


def add(data: Path) -> None:
    """Adds a copy."""
    shutil.copy(data / "cats" / "1.jpg", data / "cats" / "9.jpg")


def remove(data: Path) -> None:
    """Removes one file."""
    (data / "cats" / "1.jpg").unlink()


def quarantine(data: Path) -> None:
    """Adds a file that will be quarantined."""
    (data / "9.jpg").write_bytes(b"nine")


@pytest.mark.parametrize("change", [move_to_another_class, rename, exchange, alter, add, remove, quarantine])
def test_the_digest_changes(change: Callable[[Path], None], data: Path, take: Take) -> None:
    """Promise A13: with every change of paths, labels or contents."""
    before = take(data).digest
    change(data)

    assert take(data).digest != before


@pytest.mark.parametrize("change", [move_to_another_class, alter])
def test_the_digest_changes_with_cached_hashes(change: Callable[[Path], None], data: Path, tmp_path: Path) -> None:
    """Promise A13: the hash cache does not hide a change."""

    def digest() -> str:
        cache = HashCache(tmp_path / "hashes.db")
        taken = listing.take(SOURCE, data, cache)
        cache.close()
        return taken.digest

    before = digest()
    change(data)

    assert digest() != before


def touch(data: Path) -> None:
    """Gives a file a new mtime."""
    os.utime(data / "cats" / "1.jpg", ns=(10**18, 10**18))


def copy(data: Path) -> None:
    """Writes the same bytes to a new file."""
    content = (data / "cats" / "1.jpg").read_bytes()
    (data / "cats" / "1.jpg").unlink()
    (data / "cats" / "1.jpg").write_bytes(content)


def add_side_files(data: Path) -> None:
    """Adds files that are ignored."""
    (data / "README").write_bytes(b"read me")
    (data / "cats" / ".DS_Store").write_bytes(b"view")


@pytest.mark.parametrize("change", [touch, copy, add_side_files])
def test_the_digest_stays(change: Callable[[Path], None], data: Path, take: Take) -> None:
    """A change that no record contains is no change of the data."""
    before = take(data).digest
    change(data)

    assert take(data).digest == before


def test_the_digest_is_the_same_in_another_place(data: Path, tmp_path: Path, take: Take) -> None:
    """The data may be moved as a whole."""
    shutil.copytree(data, tmp_path / "elsewhere")

    assert take(tmp_path / "elsewhere").digest == take(data).digest


class Vanishing:
    """A source whose file is gone by the time it is hashed."""

    def find(self, data: DataPath, entries: Entries | None = None) -> Found:
        """Lists a file and removes it."""
        del entries
        Path(str(data), "cats", "1.jpg").unlink()
        return Found((SourceFile("cats/1.jpg", "cats"),), ())

    def read(self, file: SourceFile, content: bytes, settings: Ingest) -> FileRecord:
        """Is never called."""
        raise NotImplementedError


def test_a_file_that_vanishes_before_it_is_hashed_is_named(data: Path) -> None:
    """Promise B9: the run stops with its path."""
    with pytest.raises(BadInput) as stopped:
        listing.take(Vanishing(), data, HashCache(None))

    assert str(stopped.value) == (
        f"{data / 'cats' / '1.jpg'}: cannot be read: No such file or directory; nothing was ingested"
    )


def test_a_file_that_may_not_be_read_is_named(
    open_folder: Path, take: Take, without_rights: Callable[[], AbstractContextManager[None]]
) -> None:
    """Promise B9: the run stops with its path."""
    (open_folder / "cats").mkdir()
    (open_folder / "cats" / "1.jpg").write_bytes(b"one")
    (open_folder / "cats" / "1.jpg").chmod(0)
    with without_rights(), pytest.raises(BadInput) as stopped:
        take(open_folder)

    assert str(stopped.value) == (
        f"{open_folder / 'cats' / '1.jpg'}: cannot be read: Permission denied; nothing was ingested"
    )


def unread(path: str, stat: str) -> ListedFile:
    """Returns a file that is identified by its stat."""
    return ListedFile(SourceFile(path, ""), 7, "", stat)


def test_files_that_were_not_read_are_equal_by_their_stat() -> None:
    """Nothing else identifies them; of a file that was read, the content does."""
    assert unread("a.csv", "7:one") == unread("a.csv", "7:one") != unread("a.csv", "7:two")
    assert ListedFiles([unread("a.csv", "7:one")]) != ListedFiles([unread("a.csv", "7:two")])
    assert ListedFile(SourceFile("a", ""), 7, "ab", "7:one") == ListedFile(SourceFile("a", ""), 7, "ab", "7:two")


def test_files_in_columns_are_read_by_index_as_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not they were read, beyond one block of digests."""
    monkeypatch.setattr(listed_files, "_BLOCK", 2)
    files = [ListedFile(SourceFile(f"{n}", "a"), n, f"{n:064x}", f"{n}:{n}") for n in range(5)]  # the first: not read
    columns = ListedFiles(files)

    assert list(columns) == [columns[at] for at in range(5)] == [replace(files[0], sha256=""), *files[1:]]


FILES = st.lists(st.tuples(st.text(max_size=5), st.integers(0, 1 << 40), st.integers(0, 9)), max_size=30).map(
    lambda drawn: ListedFiles(
        ListedFile(SourceFile(f"c{known % 3}/{at} {name}", f"c{known % 3}"), size, f"{known:064x}", f"{size}:{name}")
        for at, (name, size, known) in enumerate(drawn)
    )
)


@given(files=FILES, step=st.integers(1, 7))
def test_every_file_is_in_one_of_the_parts(files: ListedFiles, step: int) -> None:
    """Each part has every n-th file, whole, also after it has travelled as bytes; files without a digest, too."""
    parts = [ListedFiles.from_bytes(files.every(first, step).to_bytes()) for first in range(step)]

    assert [list(part) for part in parts] == [list(files)[first::step] for first in range(step)]
    assert [[item.stat for item in part] for part in parts] == [list(files.stats)[first::step] for first in range(step)]


def test_a_name_that_is_not_utf8_travels() -> None:
    """Names of files are bytes."""
    name = os.fsdecode(b"cats/caf\xe9.jpg")
    files = ListedFiles([ListedFile(SourceFile(name, "cats"), 1, "ab" * 32)])

    assert ListedFiles.from_bytes(files.to_bytes())[0].file.path == name


def test_files_of_a_store_have_the_columns_of_its_listing() -> None:
    """Their stat is size and etag, and nothing was read."""
    names = ["cats/1.jpg", "cats/2.jpg", "dogs/3.jpg"]
    entries = Entries()
    entries.extend(names, [RemoteStat(number, 9, f"e{number}") for number in range(3)])
    sources = SourceFiles(paths=entries.names)
    sources.append_labels("cats", 2)
    sources.append_labels("dogs", 1)
    files = ListedFiles.on_store(sources, entries)

    assert list(files.identities()) == ["stat 0:e0", "stat 1:e1", "stat 2:e2"]
    assert [item.file for item in files] == [SourceFile(name, name[:4]) for name in names]
    assert list(ListedFiles.from_bytes(files.every(1, 2).to_bytes())) == [files[1]]


def test_paths_are_sorted_as_those_of_a_store(data: Path, take: Take) -> None:
    """So shards are the same: whole paths, not folder by folder."""
    for name in ("cats.2/1.jpg", "cats/a/1.jpg", "cats/a-b/1.jpg", "cats/a.jpg"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"x")
    names = [item.file.path for item in take(data).files]

    assert names == sorted(names)
    assert names[0] == "cats.2/1.jpg"
