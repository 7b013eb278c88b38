"""Verdicts on images by content hash, in a small sqlite file that all workers share.

    recall ◄─ one row by its key           note ─► kept in memory ─► close: one transaction

It only saves time: whatever is wrong with the file (absent, damaged, read-only, locked, the disk full), images are
checked as if it were not there. A damaged one is removed, so that the next run starts afresh.
"""

import sqlite3
import threading
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

_TABLE = """
CREATE TABLE IF NOT EXISTS verdicts (
    sha256 BLOB, rules BLOB, width INTEGER, height INTEGER, source_format TEXT, look BLOB, reason TEXT, position TEXT,
    PRIMARY KEY (sha256, rules)
) WITHOUT ROWID
"""
_COLUMNS = "width, height, source_format, look, reason, position"
_PATIENCE = 5  # seconds to wait while another worker writes


@dataclass(frozen=True)
class Verdict:
    """What was found out about an image: its size, format and look, or why it was rejected."""

    width: int = 0
    height: int = 0
    source_format: str = ""
    look: int | None = None
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
        self._fresh: dict[bytes, Verdict] = {}
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        try:
            self._db = _open(file, int(code[:7], 16))
        except sqlite3.DatabaseError as error:
            self._give_up(error)
        except OSError:
            pass  # not even its folder can be made

    def recall(self, sha256: str) -> Verdict | None:
        """Returns what is known of a content."""
        key = bytes.fromhex(sha256)
        with self._lock:
            if self._db is None:
                return None
            try:
                query = f"SELECT {_COLUMNS} FROM verdicts WHERE sha256 = ? AND rules = ?"  # noqa: S608 - our own columns
                row = self._db.execute(query, (key, self._rules)).fetchone()
                return _verdict(*row) if row else None
            except sqlite3.DatabaseError as error:
                self._give_up(error)
            except (TypeError, ValueError):
                pass  # not what this code has written
        return None

    def note(self, sha256: str, verdict: Verdict) -> None:
        """Remembers what was found out; it is stored by `close`."""
        with self._lock:
            self._fresh[bytes.fromhex(sha256)] = verdict

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

    def _store(self, db: sqlite3.Connection) -> None:
        rows = [(key, self._rules, *_row(verdict)) for key, verdict in self._fresh.items()]
        if rows:
            with db:
                db.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

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
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found != version:
        db.execute("DROP TABLE IF EXISTS verdicts")
        db.execute(f"PRAGMA user_version = {version}")
    db.execute(_TABLE)


def _row(verdict: Verdict) -> tuple[object, ...]:
    width, height, source_format, look, reason, position = astuple(verdict)
    return width, height, source_format, None if look is None else look.to_bytes(8, "big"), reason, position


def _verdict(width: int, height: int, source_format: str, look: bytes | None, reason: str, position: str) -> Verdict:
    seen = None if look is None else int.from_bytes(look, "big")
    return Verdict(int(width), int(height), str(source_format), seen, str(reason), str(position))
