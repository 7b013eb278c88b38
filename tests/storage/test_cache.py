"""A cache returns what was stored or nothing, whatever happens to its file, and is never an error."""

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from components import progress
from components.storage import cache
from components.storage.cache import Cache

ROOT = Path(__file__).resolve().parents[2]
VALUES = {b"key %d" % number: b"value %d" % number * 20 for number in range(1_200)}


@contextmanager
def opened(file: Path | None, table: str = "values_1", *, read_only: bool = False) -> Iterator[Cache]:
    """Opens a cache and closes it."""
    with closing(Cache(file, table, read_only=read_only)) as found:
        yield found


def put(file: Path, values: dict[bytes, bytes], table: str = "values_1") -> None:
    """Stores values."""
    with opened(file, table) as found:
        found.put(values)


def get(file: Path, table: str = "values_1", *, read_only: bool = False) -> dict[bytes, bytes]:
    """Returns all values that are found."""
    with opened(file, table, read_only=read_only) as found:
        return found.get(VALUES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a cache that does not exist, in a folder that does not exist."""
    return tmp_path / "new" / "cache.db"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked file is waited for only briefly."""
    monkeypatch.setattr(cache, "_PATIENCE", 0.05)


class TestUse:
    """What is stored is found."""

    def test_values_are_found_by_the_next_process(self, file: Path) -> None:
        """More than one query asks for; unknown keys are left out."""
        put(file, VALUES)
        with opened(file) as found:
            assert found.get([*VALUES, b"unknown"]) == VALUES

    def test_a_value_is_replaced(self, file: Path) -> None:
        """The last one counts."""
        put(file, {b"key 1": b"old", b"key 2": b"kept"})
        put(file, {b"key 1": b""})

        assert get(file) == {b"key 1": b"", b"key 2": b"kept"}

    def test_without_a_file_values_are_kept_in_memory(self) -> None:
        """For the life of the cache."""
        with opened(None) as found:
            found.put(VALUES)

            assert found.get(VALUES) == VALUES

    @pytest.mark.parametrize("name", ["plain", "a#b", "what?", "50%41", "with space", "é", os.fsdecode(b"caf\xe9")])
    def test_any_path_is_opened(self, name: str, tmp_path: Path) -> None:
        """Also by a reader."""
        put(tmp_path / name / "cache.db", VALUES)

        assert get(tmp_path / name / "cache.db", read_only=True) == VALUES
        assert [path.name for path in (tmp_path / name).iterdir()] == ["cache.db"]

    def test_a_reader_creates_nothing(self, file: Path) -> None:
        """Neither file nor folder; values are kept in memory."""
        with opened(file, read_only=True) as found:
            found.put(VALUES)

            assert found.get(VALUES) == VALUES
        assert not file.parent.exists()

    def test_a_reader_changes_nothing(self, file: Path) -> None:
        """A new value is not stored."""
        put(file, {b"key 1": b"one"})
        before = file.read_bytes()
        with opened(file, read_only=True) as found:
            found.put({b"key 2": b"two"})

        assert file.read_bytes() == before

    @pytest.mark.parametrize("read_only", [False, True])
    def test_entries_of_another_version_are_not_found(self, file: Path, read_only: bool) -> None:
        """Another table name is another version."""
        put(file, VALUES)

        assert get(file, "values_2", read_only=read_only) == {}

    def test_tables_of_other_versions_are_dropped(self, file: Path) -> None:
        """Else the file would grow with every version."""
        put(file, VALUES)
        put(file, {b"key 1": b"one"}, "values_2")
        with closing(sqlite3.connect(file)) as database:
            assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("values_2",)]


def garbage(file: Path) -> None:
    """Writes something that is not a database."""
    file.write_bytes(b"garbage" * 10_000)


def empty(file: Path) -> None:
    """Empties the file."""
    file.write_bytes(b"")


def damaged_pages(file: Path) -> None:
    """Overwrites all pages but the first, which has the schema."""
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xab" * (file.stat().st_size - 4096))


def cut(file: Path) -> None:
    """Cuts the file within its second page."""
    os.truncate(file, 5_000)


def another_shape(file: Path) -> None:
    """Creates the table with other columns, and another table beside it."""
    file.unlink()
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE values_1 (path BLOB PRIMARY KEY, digest TEXT)")
        database.execute("CREATE TABLE hashes (path BLOB PRIMARY KEY, stat TEXT, sha256 TEXT)")


def stale_journal(file: Path) -> None:
    """Leaves garbage, and the journal of a process that was killed."""
    garbage(file)
    file.with_name(f"{file.name}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(1_000))


FAULTS = [garbage, empty, damaged_pages, cut, another_shape, stale_journal]


class TestDamage:
    """A damaged file is created again."""

    @pytest.mark.parametrize("fault", FAULTS)
    def test_nothing_wrong_is_returned_and_the_file_works_again(
        self, file: Path, fault: Callable[[Path], None]
    ) -> None:
        """The run that finds the damage stores its values, and the next one finds them."""
        put(file, VALUES)
        fault(file)
        with opened(file) as found:
            assert found.get(VALUES) == {}
            found.put(VALUES)

        assert get(file) == VALUES

    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_write_alone_repairs_the_file(self, file: Path, fault: Callable[[Path], None]) -> None:
        """At the latest for the run after it."""
        put(file, VALUES)
        fault(file)
        put(file, VALUES)
        put(file, VALUES)

        assert get(file) == VALUES

    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_reader_leaves_it_alone(self, file: Path, fault: Callable[[Path], None]) -> None:
        """It finds nothing, and changes nothing."""
        put(file, VALUES)
        fault(file)
        before = file.read_bytes()

        assert get(file, read_only=True) == {}
        assert file.read_bytes() == before

    def test_a_flipped_bit_of_a_value_is_noticed(self, file: Path) -> None:
        """SQLite itself does not notice it."""
        put(file, VALUES)
        content = file.read_bytes()
        at = content.index(VALUES[b"key 7"]) + 3
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])

        assert get(file) == {key: value for key, value in VALUES.items() if key != b"key 7"}

    def test_no_flipped_bit_is_an_error_or_gives_a_wrong_value(self, file: Path) -> None:
        """In the header, in the schema, in the tree, in keys and in values."""
        some = {key: VALUES[key] for key in list(VALUES)[:200]}
        put(file, some)
        content = file.read_bytes()
        draw = random.Random(7)
        for offset in [*range(100), *(draw.randrange(len(content)) for _ in range(200))]:
            file.write_bytes(
                content[:offset] + bytes([content[offset] ^ 1 << draw.randrange(8)]) + content[offset + 1 :]
            )
            with opened(file) as found:
                assert found.get(some).items() <= some.items()
                found.put({b"key 1": VALUES[b"key 1"]})
                assert found.get(some).items() <= some.items()

    def test_two_processes_that_find_the_damage_create_one_file(self, file: Path) -> None:
        """The second one does not delete what the first one has created and stored."""
        put(file, VALUES)
        with opened(file) as first, opened(file) as second:
            damaged_pages(file)
            assert first.get(VALUES) == {}
            first.put(VALUES)
            assert second.get(VALUES) == {}

        assert get(file) == VALUES


class TestLocked:
    """A file that another process has locked is not used in this run, and not touched."""

    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize("read_only", [False, True])
    def test_values_are_kept_in_memory(self, file: Path, read_only: bool) -> None:
        """The file keeps what the other process has stored."""
        put(file, {b"key 1": b"one"})
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with opened(file, read_only=read_only) as found:
                assert found.get(VALUES) == {}
                found.put(VALUES)
                assert found.get(VALUES) == VALUES

        assert get(file) == {b"key 1": b"one"}

    @pytest.mark.usefixtures("impatient")
    def test_a_lock_between_reading_and_storing(self, file: Path) -> None:
        """What could be read stays readable; what could not be stored is computed again in the next run."""
        put(file, {b"key 1": b"one"})
        with opened(file) as found, closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            found.put(VALUES)

            assert found.get(VALUES) == {b"key 1": b"one"}
        assert get(file) == {b"key 1": b"one"}

    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize("lock", ["BEGIN EXCLUSIVE", "BEGIN IMMEDIATE"])
    def test_a_damaged_file_in_use_is_not_deleted(self, file: Path, lock: str) -> None:
        """Its other user may be writing."""
        put(file, VALUES)
        damaged_pages(file)
        before = file.stat().st_ino
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute(lock)
            assert get(file) == {}
            put(file, VALUES)

            assert file.stat().st_ino == before


class TestFolder:
    """The place of the file."""

    def test_a_folder_in_its_place(self, file: Path) -> None:
        """It is left alone."""
        file.mkdir(parents=True)
        put(file, VALUES)

        assert get(file) == {}
        assert file.is_dir()

    def test_a_file_in_place_of_its_folder(self, file: Path) -> None:
        """The folder cannot be created."""
        file.parent.write_bytes(b"")
        put(file, VALUES)

        assert get(file) == {}

    def test_a_read_only_folder(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """What is stored is read; what is new is not stored."""
        file = open_folder / "cache.db"
        put(file, {b"key 1": b"one"})
        file.chmod(0o444)
        open_folder.chmod(0o555)
        with without_rights():
            put(file, VALUES)
            put(open_folder / "new.db", VALUES)

            assert get(file) == {b"key 1": b"one"}
            assert get(open_folder / "new.db") == {}

    def test_a_damaged_file_in_a_read_only_folder(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """It cannot be deleted, and is not used."""
        file = open_folder / "cache.db"
        garbage(file)
        file.chmod(0o444)
        open_folder.chmod(0o555)
        with without_rights(), opened(file) as found:
            found.put(VALUES)

            assert found.get(VALUES) == VALUES

    @pytest.mark.parametrize("closed", ["file", "folder"])
    def test_no_right_to_read(
        self, closed: str, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Of the file, or of its folder."""
        file = open_folder / "cache.db"
        put(file, VALUES)
        (file if closed == "file" else open_folder).chmod(0)
        with without_rights():
            assert get(file) == {}
        open_folder.chmod(0o777)
        assert get(file) == VALUES

    def test_a_full_disk(self, tiny_disk: Path) -> None:
        """What fits is kept, whole transactions only."""
        file = tiny_disk / "cache.db"
        put(file, {b"key 1": b"one"})
        with opened(file) as found:
            found.put({key: os.urandom(1_000) for key in VALUES})

            assert found.get(VALUES) == {b"key 1": b"one"}
        assert get(file) == {b"key 1": b"one"}

    def test_a_disk_without_room_for_the_file(self, tiny_disk: Path) -> None:
        """Not even the table fits."""
        (tiny_disk / "other").write_bytes(bytes(64 << 10))
        with opened(tiny_disk / "cache.db") as found:
            found.put(VALUES)

            assert found.get(VALUES) == VALUES


@pytest.mark.usefixtures("impatient")
class TestWarning:
    """B15: a warning says once per process and file that a cache is not used as it should be."""

    @pytest.fixture
    def warnings(self) -> Iterator[list[str]]:
        """The warnings of a test."""
        shown: list[str] = []
        with progress.warnings_to(shown.append):
            yield shown

    def test_a_file_in_order(self, file: Path, warnings: list[str]) -> None:
        """Nothing is said, neither of a new file nor of one that a reader does not find."""
        get(file, read_only=True)
        put(file, VALUES)
        get(file)

        assert warnings == []

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            (garbage, "damaged (file is not a database); created again"),
            (damaged_pages, "damaged (database disk image is malformed); created again"),
            (another_shape, "written by another version; its entries are not used"),
        ],
    )
    def test_a_damaged_file(self, file: Path, warnings: list[str], fault: Callable[[Path], None], message: str) -> None:
        """One warning, however often it is opened and damaged."""
        for _ in range(2):
            put(file, VALUES)
            fault(file)
            get(file)

        assert warnings == [f"cache {file}: {message}"]

    def test_a_locked_file(self, file: Path, warnings: list[str]) -> None:
        """It is not used."""
        put(file, VALUES)
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            get(file)
            put(file, VALUES)

        assert warnings == [f"cache {file}: not used in this run: database is locked"]

    def test_a_read_only_file(
        self, open_folder: Path, warnings: list[str], without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """What is new is not stored."""
        file = open_folder / "cache.db"
        put(file, {})
        file.chmod(0o444)
        with without_rights():
            put(file, VALUES)
            put(file, VALUES)

        reason = "attempt to write a readonly database"
        assert warnings == [f"cache {file}: cannot be written: {reason}; new entries are not stored"]

    def test_a_full_disk(self, tiny_disk: Path, warnings: list[str]) -> None:
        """What is new is not stored."""
        file = tiny_disk / "cache.db"
        put(file, {key: os.urandom(1_000) for key in VALUES})

        reason = "database or disk is full"
        assert warnings == [f"cache {file}: cannot be written: {reason}; new entries are not stored"]


WORKER = """
import sys
from contextlib import closing
from pathlib import Path
from components.storage.cache import Cache

for number in range(int(sys.argv[2]), 40, 2):
    with closing(Cache(Path(sys.argv[1]), "values_1")) as cache:
        cache.put({b"key %d" % number: b"value"})
"""


class TestTogether:
    """Processes and threads share a file."""

    def test_threads_share_a_cache(self, file: Path) -> None:
        """Nothing is lost."""
        keys, start = list(VALUES), threading.Barrier(8)

        def store(number: int) -> None:
            start.wait()
            for key in keys[number::8]:
                found.put({key: VALUES[key]})
                found.get(keys[:3])

        with opened(file) as found, ThreadPoolExecutor(8) as pool:
            list(pool.map(store, range(8)))

        assert get(file) == VALUES

    def test_processes_share_a_file(self, file: Path) -> None:
        """Two create it at once, and both store values."""
        commands = [[sys.executable, "-c", WORKER, str(file), str(first)] for first in range(2)]
        workers = [subprocess.Popen(command, cwd=ROOT) for command in commands]

        assert [worker.wait() for worker in workers] == [0, 0]
        assert get(file) == {b"key %d" % number: b"value" for number in range(40)}
