"""A key-value cache in one SQLite file, shared by processes and threads.

A cache only saves time, so nothing that happens to its file is an error. The first problem of a file is a warning:

| the file is                                | what happens                                                        |
|--------------------------------------------|---------------------------------------------------------------------|
| absent                                     | created, without a warning                                          |
| of another version                         | tables of other versions are dropped                                |
| damaged                                    | deleted and created, unless another process reads or writes it      |
| locked, or not readable                    | not used in this run: entries are kept in memory                    |
| not writable, or on a full disk            | read; new entries are not stored                                    |

SQLite does not notice a flipped bit in a value, so each value is stored with a checksum.
"""

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from components import progress

_BATCH = 500  # keys per query
_PATIENCE = 5.0  # seconds to wait for another process that writes
_CHECKSUM = 4  # bytes
_warned: set[Path] = set()  # files: one warning each per process


class Cache:
    """Bytes by key. The table's name contains the version of its entries: with another name, the cache is empty."""

    def __init__(self, file: Path | None, table: str, *, read_only: bool = False) -> None:
        """Opens or creates the file; without a file, entries are kept in memory."""
        self._file, self._table, self._read_only = file, table, read_only
        self._writable = not read_only
        self._lock = threading.Lock()
        self._db = self._open()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Returns the values of those keys that are in the cache."""
        with self._lock:
            try:
                return dict(self._select(list(keys)))
            except sqlite3.DatabaseError as error:
                self._reopen(error)
                return {}

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Stores values in one transaction, if the file can be written."""
        rows = [(key, _checksum(key, value) + value) for key, value in values.items()]
        with self._lock:
            if not rows or not self._writable:
                return
            try:
                with self._db:
                    self._db.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", rows)  # noqa: S608
            except sqlite3.OperationalError as error:
                self._writable = False
                self._warn(f"cannot be written: {error}; new entries are not stored")
            except sqlite3.DatabaseError as error:
                self._reopen(error)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()

    def _select(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            marks = ", ".join("?" * len(batch))
            query = f"SELECT key, value FROM {self._table} WHERE key IN ({marks})"  # noqa: S608 - our own name
            for key, stored in self._db.execute(query, batch).fetchall():
                if _is_intact(key, stored):
                    yield key, stored[_CHECKSUM:]

    def _reopen(self, error: sqlite3.DatabaseError) -> None:
        """Starts with a new file if the old one is damaged, else without a file."""
        self._db.close()
        if self._file is not None and not self._recreate(self._file, error):
            self._without_file(error)
        self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        if self._file is not None:
            try:
                return self._connect(self._file)
            except sqlite3.DatabaseError as error:
                if self._recreate(self._file, error):
                    with suppress(sqlite3.DatabaseError):
                        return self._connect(self._file)
                self._without_file(error)
            except OSError as error:  # its folder cannot be created or read
                self._without_file(error)
        self._writable = True
        return self._prepared(sqlite3.connect(":memory:", check_same_thread=False))

    def _without_file(self, error: Exception) -> None:
        if not self._read_only or _exists(self._file):
            self._warn(f"not used in this run: {error}")
        self._file = None

    def _warn(self, what: str) -> None:
        if self._file is not None and self._file not in _warned:
            _warned.add(self._file)
            progress.warn(f"cache {self._file}: {what}")

    def _connect(self, file: Path) -> sqlite3.Connection:
        self._writable = not self._read_only
        if not self._read_only:
            file.parent.mkdir(parents=True, exist_ok=True)
        uri = f"{file.absolute().as_uri()}?mode={'ro' if self._read_only else 'rwc'}"
        # One thread opens it, many use it: the lock of this class separates them.
        return self._prepared(sqlite3.connect(uri, timeout=_PATIENCE, check_same_thread=False, uri=True))

    def _prepared(self, db: sqlite3.Connection) -> sqlite3.Connection:
        """Returns a database with this table and no other."""
        create = f"CREATE TABLE {self._table} (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
        try:
            # A power failure may cost the cache; waiting for the disk at every shard would cost more.
            db.execute("PRAGMA synchronous = OFF")
            if (present := _tables(db)) != {self._table: create}:
                if present:
                    self._warn("written by another version; its entries are not used")
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    for name, sql in _tables(db).items():
                        if (name, sql) != (self._table, create):
                            db.execute('DROP TABLE "{}"'.format(name.replace('"', '""')))
                    if not _tables(db):
                        db.execute(create)
        except sqlite3.DatabaseError:
            db.close()
            raise
        db.text_factory = bytes  # damage may turn a value into text that is not UTF-8
        return db

    def _recreate(self, file: Path, error: sqlite3.DatabaseError) -> bool:
        """Deletes a damaged file; returns whether the file can be opened again."""
        if self._read_only:
            return False
        try:
            deleted = _delete_damaged(file)
        except (OSError, sqlite3.OperationalError):
            return False
        if deleted:
            self._warn(f"damaged ({error}); created again")
        # An intact file after an error that means damage: another process has created it meanwhile.
        return deleted or type(error) is sqlite3.DatabaseError


def _exists(file: Path | None) -> bool:
    try:
        return file is not None and file.exists()
    except OSError:  # its folder cannot be searched
        return True


def _tables(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())


def _delete_damaged(file: Path) -> bool:
    """Deletes a file if it is damaged; raises OperationalError if another process uses it."""
    with closing(sqlite3.connect(file, timeout=0)) as db:
        try:
            db.execute("BEGIN EXCLUSIVE")
            if db.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]:
                return False
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            pass
        # The journal first: SQLite would roll it back into the new file.
        file.with_name(f"{file.name}-journal").unlink(missing_ok=True)
        file.unlink(missing_ok=True)
    return True


def _is_intact(key: object, stored: object) -> bool:
    """Whether a value has its checksum; damage may also have changed the type of key or value."""
    if not isinstance(key, bytes) or not isinstance(stored, bytes):
        return False
    return _checksum(key, stored[_CHECKSUM:]) == stored[:_CHECKSUM]


def _checksum(key: bytes, value: bytes) -> bytes:
    return zlib.crc32(value, zlib.crc32(key)).to_bytes(_CHECKSUM, "little")
