"""The schedules of a root and the ledger of their ticks, in one SQLite file: `<state>/.penstock/schedule.db`.

Whoever decides on ticks does so in one transaction that is alone: it reads the ledger, applies the policy and writes
what it decided. So two schedulers never decide on the same tick; the key (schedule, tick) says it once more.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from components.errors import DiskFull, PenstockError, SettingsError
from pipelines.journal import run_id
from pipelines.schedule import schedule as schedules
from pipelines.schedule.policy import LOOK_BACK, OPEN, TickDecision, TickRecord
from pipelines.schedule.schedule import PipelineSchedule
from pipelines.schedule.timetable import DueTick

FILE = "schedule.db"
_PATIENCE = 30.0  # seconds to wait for another process that writes
_VERSION = 1
_NEVER = "9999"  # after every time, as text
_TABLES = """
CREATE TABLE schedules (name TEXT PRIMARY KEY, fields TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE ticks (
    schedule TEXT NOT NULL, key TEXT NOT NULL, at TEXT NOT NULL, local TEXT NOT NULL, state TEXT NOT NULL,
    reason TEXT NOT NULL, decided TEXT, started TEXT, ended TEXT, exit_code INTEGER, starts INTEGER NOT NULL,
    run_id TEXT NOT NULL, owner TEXT NOT NULL, process TEXT NOT NULL,
    PRIMARY KEY (schedule, key)
) WITHOUT ROWID;
CREATE INDEX ticks_at ON ticks (schedule, at);
PRAGMA user_version = 1;
"""
_TIMES = ("at", "local", "decided", "started", "ended")
_COLUMNS = (
    "schedule", "key", "at", "local", "state", "reason", "decided", "started", "ended", "exit_code", "starts",
    "run_id", "owner", "process",
)  # fmt: skip
Decide = Callable[[PipelineSchedule, Sequence[TickRecord], bool], Sequence[TickDecision]]


class ScheduleLedger:
    """Schedules and ticks of one root; every call is one transaction."""

    def __init__(self, notes: Path) -> None:
        """Opens the ledger in a folder; the file is created by the first schedule."""
        self.file = notes / FILE

    def schedules(self) -> list[PipelineSchedule]:
        """Returns all schedules, by name."""
        with self._reading() as db:
            return _schedules(db) if db else []

    def find(self, name: str) -> PipelineSchedule:
        """Returns a schedule; raises SettingsError if there is none of this name."""
        for schedule in self.schedules():
            if schedule.name == name:
                return schedule
        raise SettingsError(
            f"{self.file.parent.parent}: pipeline {name} has no schedule; make one with `penstock schedule add`"
        )

    def put(self, schedule: PipelineSchedule, *, new: bool = False) -> None:
        """Stores a schedule, in place of one of the same name; raises SettingsError if it must be new and is not."""
        with self._writing() as db:
            if new and any(each.name == schedule.name for each in _schedules(db)):
                raise SettingsError(
                    f"pipeline {schedule.name} has a schedule; replace it with --replace, or remove it with "
                    "`penstock schedule remove`"
                )
            fields = orjson.dumps(schedule.fields()).decode()
            db.execute("INSERT OR REPLACE INTO schedules VALUES (?, ?)", (schedule.name, fields))
            _free_keys(db, schedule)

    def remove(self, name: str) -> None:
        """Removes a schedule and its ticks."""
        self.find(name)
        with self._writing() as db:
            db.execute("DELETE FROM schedules WHERE name = ?", (name,))
            db.execute("DELETE FROM ticks WHERE schedule = ?", (name,))

    def ticks(self, name: str, count: int = LOOK_BACK, *, until: datetime | None = None) -> list[TickRecord]:
        """Returns the newest ticks of a schedule, in ascending order, and all that are queued or running.

        Args:
            name: of the schedule.
            count: how many.
            until: ticks that are due later are left out: a clock that was ahead has decided on them; None: none are.
        """
        with self._reading() as db:
            return _ticks(db, name, count, until) if db else []

    def open_ticks(self) -> list[TickRecord]:
        """Returns all ticks that are queued or running, of all schedules."""
        with self._reading() as db:
            return _open(db) if db else []

    def decide(self, name: str, now: datetime, owner: str, policy: Decide) -> list[TickRecord]:
        """Applies a policy to a schedule and returns the ticks whose state changed; running ones are the caller's.

        Args:
            name: of the schedule.
            now: the time, UTC.
            owner: identity of the scheduler, which starts what is running.
            policy: returns decisions from schedule, ledger, and whether no other schedule of this root has a run.
        """
        with self._writing() as db:
            schedule = next((each for each in _schedules(db) if each.name == name), None)
            if schedule is None:  # removed meanwhile
                return []
            known = _ticks(db, name, LOOK_BACK, now)
            is_alone = not any(each.state == "running" and each.schedule != name for each in _open(db))
            changed = [
                _decided(known, schedule, decision, now, owner) for decision in policy(schedule, known, is_alone)
            ]
            if changed:
                _write(db, changed)
                _prune(db, name, now)
            return changed

    def change(self, record: TickRecord, **fields: Any) -> TickRecord | None:
        """Changes a tick that is still as `record` says, and returns it; None if another process has changed it."""
        changed = replace(record, **fields)
        with self._writing() as db:
            if record not in _open(db):
                return None
            _write(db, [changed])
            return changed

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600))
        with self._connected("rw") as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                if _version(db) == 0:
                    for statement in _TABLES.split(";\n"):
                        db.execute(statement)
                yield db
            except BaseException:
                if db.in_transaction:  # a full disk has ended it
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self.file.exists():
            yield None
            return
        # Opened for writing, if it can be: only so SQLite undoes what a writer that was killed has left.
        with self._connected("rw" if os.access(self.file, os.W_OK) else "ro") as db:
            yield db if _version(db) else None

    @contextmanager
    def _connected(self, mode: str) -> Iterator[sqlite3.Connection]:
        uri = f"{self.file.absolute().as_uri()}?mode={mode}"
        try:
            with closing(sqlite3.connect(uri, timeout=_PATIENCE, isolation_level=None, uri=True)) as db:
                if _version(db) not in (0, _VERSION):
                    raise PenstockError(f"{self.file}: written by another version of Penstock; use that version")
                yield db
        except sqlite3.OperationalError as error:
            if "full" in str(error):  # "database or disk is full": before Python 3.11 there is no error code
                raise DiskFull(
                    f"{self.file}: no space left on its disk; free some, and the scheduler goes on"
                ) from None
            raise PenstockError(f"{self.file}: {error}; expected a file that this user may write") from None
        except sqlite3.DatabaseError as error:
            raise PenstockError(
                f"{self.file}: the schedules cannot be read: {error}; restore the file, or delete it and add the "
                "schedules again"
            ) from None


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _schedules(db: sqlite3.Connection) -> list[PipelineSchedule]:
    rows = db.execute("SELECT fields FROM schedules ORDER BY name").fetchall()
    try:
        return [schedules.of_fields(orjson.loads(fields)) for (fields,) in rows]
    except (ValueError, TypeError, KeyError):
        raise sqlite3.DatabaseError("a schedule has unknown fields") from None


def _ticks(db: sqlite3.Connection, name: str, count: int, until: datetime | None) -> list[TickRecord]:
    names, end = ", ".join(_COLUMNS), until.isoformat() if until else _NEVER
    newest = f"SELECT {names} FROM ticks WHERE schedule = ? AND at <= ? ORDER BY at DESC, key DESC LIMIT ?"  # noqa: S608
    found = [_record(row) for row in db.execute(newest, (name, end, count)).fetchall()]
    still_open = [each for each in _open(db) if each.schedule == name and each not in found]
    return sorted([*found, *still_open], key=lambda each: (each.tick.at, each.tick.key))


def _open(db: sqlite3.Connection) -> list[TickRecord]:
    query = f"SELECT {', '.join(_COLUMNS)} FROM ticks WHERE state IN (?, ?) ORDER BY at"  # noqa: S608 - our own names
    return [_record(row) for row in db.execute(query, OPEN).fetchall()]


def _decided(
    known: Sequence[TickRecord], schedule: PipelineSchedule, decision: TickDecision, now: datetime, owner: str
) -> TickRecord:
    before = next((each for each in known if each.tick.key == decision.tick.key), None)
    record = before or TickRecord(schedule.name, decision.tick, decision.state)
    record = replace(record, state=decision.state, reason=decision.reason, decided=now)
    if decision.state == "running":
        started, run = record.started or now, record.run_id or run_id.new()  # the same run if it was started before
        return replace(record, owner=owner, process="", started=started, starts=record.starts + 1, run_id=run)
    return record


def _write(db: sqlite3.Connection, records: Sequence[TickRecord]) -> None:
    marks = ", ".join("?" * len(_COLUMNS))
    db.executemany(f"INSERT OR REPLACE INTO ticks VALUES ({marks})", map(_row, records))  # noqa: S608 - marks only


def _prune(db: sqlite3.Connection, name: str, now: datetime) -> None:
    """Deletes ticks that no policy needs any more."""
    oldest = "SELECT at FROM ticks WHERE schedule = ?1 AND at <= ?5 ORDER BY at DESC LIMIT 1 OFFSET ?2"
    delete = f"DELETE FROM ticks WHERE schedule = ?1 AND state NOT IN (?3, ?4) AND at < ({oldest})"  # noqa: S608
    db.execute(delete, (name, LOOK_BACK, *OPEN, now.isoformat()))


def _free_keys(db: sqlite3.Connection, schedule: PipelineSchedule) -> None:
    """Deletes ended ticks that were due before a schedule begins and have a local time that it comes to again.

    A tick is named by its local time: in a time zone further west, the hours of the zone before are due once more.
    Names that end with Z are instants.
    """
    since = schedule.since.astimezone(schedule.timetable.zone).replace(tzinfo=None)
    again = "at <= ? AND local >= ? AND key NOT LIKE '%Z'"
    delete = f"DELETE FROM ticks WHERE schedule = ? AND state NOT IN (?, ?) AND {again}"  # noqa: S608 - ours
    db.execute(delete, (schedule.name, *OPEN, schedule.since.isoformat(), since.isoformat()))


def _row(record: TickRecord) -> list[Any]:
    fields = {**vars(record), **vars(record.tick)}
    return [fields[name].isoformat() if name in _TIMES and fields[name] else fields[name] for name in _COLUMNS]


def _record(row: Sequence[Any]) -> TickRecord:
    fields: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    fields |= {name: datetime.fromisoformat(fields[name]) for name in _TIMES if fields[name]}
    tick = DueTick(fields.pop("key"), fields.pop("at"), fields.pop("local"))
    return TickRecord(tick=tick, **fields)
