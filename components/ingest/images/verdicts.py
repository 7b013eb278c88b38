"""Verdicts on images by content hash, in a small sqlite file that all workers share.

    ask ◄─ many rows at once        recall ◄─ one row        note ─► kept in memory ─► close: one transaction

It only saves time: whatever is wrong with the file (absent, damaged, read-only, locked, the disk full), images are
checked as if it were not there. A damaged one is removed, so that the next run starts afresh; and as sqlite itself
does not notice a flipped bit, every row has a checksum.
"""

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TABLE = """
CREATE TABLE IF NOT EXISTS verdicts (
    rules BLOB, sha256 BLOB, width INTEGER, height INTEGER, source_format TEXT, perceptual_hash BLOB,
    reason TEXT, position TEXT, checksum INTEGER, PRIMARY KEY (rules, sha256)
) WITHOUT ROWID
"""
_ASKED = 500  # contents in one query
_PATIENCE = 5  # seconds to wait while another worker writes

_Row = Sequence[object]  # what stands in the columns from sha256 to position


@dataclass(frozen=True)
class Verdict:
    """What was found out about an image: its size, format and perceptual hash, or why it was rejected."""

    width: int = 0
    height: int = 0
    source_format: str = ""
    perceptual_hash: int | None = None
    reason: str = ""
    position: str = ""


class Memory:
    """Verdicts that hold under the same rules; many threads may use it at once."""

    def __init__(self, file: Path, code: str, rules: str) -> None:
        """Opens `file`, or does without.

        Args:
            file: where verdicts are kept.
            code: digest of what makes them; those of other code are forgotten.
            rules: digest of all that they depend on; those of other rules are kept beside.
        """
        self._file, self._rules = file, bytes.fromhex(rules)
        self._asked: dict[str, Verdict | None] = {}
        self._fresh: dict[str, Verdict] = {}
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        try:
            self._db = _open(file, int(code[:7], 16))
        except sqlite3.DatabaseError as error:
            self._give_up(error)
        except OSError:
            pass  # not even its folder can be made

    def ask(self, hashes: Iterable[str]) -> None:
        """Looks many contents up at once, for `recall` to know."""
        wanted = list(hashes)
        with self._lock:
            self._asked = dict.fromkeys(wanted)
            for start in range(0, len(wanted), _ASKED):
                self._asked.update(self._select(wanted[start : start + _ASKED]))

    def recall(self, sha256: str) -> Verdict | None:
        """Returns what is known of a content."""
        with self._lock:
            if sha256 in self._asked:
                return self._asked[sha256]
            return dict(self._select([sha256])).get(sha256)

    def note(self, sha256: str, verdict: Verdict) -> None:
        """Remembers what was found out; it is stored by `close`."""
        with self._lock:
            self._fresh[sha256] = verdict

    def close(self) -> None:
        """Stores what is new."""
        with self._lock:
            if self._db is None:
                return
            try:
                self._store(self._db)
            except sqlite3.DatabaseError as error:
                self._give_up(error)
            else:
                self._db.close()
                self._db = None

    def _select(self, hashes: Sequence[str]) -> Iterator[tuple[str, Verdict]]:
        if self._db is None:
            return
        marks = ", ".join("?" * len(hashes))
        query = f"SELECT * FROM verdicts WHERE rules = ? AND sha256 IN ({marks})"  # noqa: S608 - nothing but marks
        try:
            rows = self._db.execute(query, (self._rules, *map(bytes.fromhex, hashes))).fetchall()
        except sqlite3.DatabaseError as error:
            self._give_up(error)
            return
        for _, *row, checksum in rows:
            if _checksum(row) == checksum:
                yield _verdict(row)

    def _store(self, db: sqlite3.Connection) -> None:
        rows = [_row(sha256, verdict) for sha256, verdict in self._fresh.items()]
        if rows:
            with db:
                db.executemany(
                    "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    [(self._rules, *row, _checksum(row)) for row in rows],
                )

    def _give_up(self, error: sqlite3.DatabaseError) -> None:
        """Does without the file; one that is damaged, and not just out of reach, is removed."""
        if self._db is not None:
            self._db.close()
            self._db = None
        if not isinstance(error, sqlite3.OperationalError):
            with suppress(OSError):
                self._file.unlink(missing_ok=True)


def _open(file: Path, version: int) -> sqlite3.Connection:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Opened by one thread, used by many: our lock keeps them apart.
    db = sqlite3.connect(file, timeout=_PATIENCE, check_same_thread=False)
    try:
        _prepare(db, version)
    except sqlite3.OperationalError:
        pass  # read-only, perhaps with all that is wanted in it
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, version: int) -> None:
    # To wait for the disk at every shard would cost more than what a power failure can take from us.
    db.execute("PRAGMA synchronous = OFF")
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found != version:
        db.execute("DROP TABLE IF EXISTS verdicts")
        db.execute(f"PRAGMA user_version = {version}")
    db.execute(_TABLE)


def _row(sha256: str, verdict: Verdict) -> _Row:
    hashed = None if verdict.perceptual_hash is None else verdict.perceptual_hash.to_bytes(8, "big")
    size = verdict.width, verdict.height
    return (bytes.fromhex(sha256), *size, verdict.source_format, hashed, verdict.reason, verdict.position)


def _verdict(row: Iterable[Any]) -> tuple[str, Verdict]:
    sha256, width, height, source_format, hashed, reason, position = row
    perceptual_hash = None if hashed is None else int.from_bytes(hashed, "big")
    return sha256.hex(), Verdict(width, height, source_format, perceptual_hash, reason, position)


def _checksum(row: Iterable[object]) -> int:
    return zlib.crc32(repr(tuple(row)).encode())
