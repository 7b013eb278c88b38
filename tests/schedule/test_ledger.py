"""Schedules and ticks in SQLite."""

import contextlib
import multiprocessing
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from components.errors import DiskFull, PenstockError, SettingsError
from pipelines.schedule import policy
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.policy import TickDecision, TickRecord
from pipelines.schedule.schedule import PipelineSchedule

At = Callable[[str], datetime]
Nightly = Callable[..., PipelineSchedule]
# Changes more than fits into its memory, so that the file has a part of it, and is killed before it commits.
_KILLED_WRITER = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.execute("DELETE FROM schedules")
row = "'', '', 'skipped', '', NULL, NULL, NULL, NULL, 0, '', '', ''"
for key in range(2000):
    db.execute(f"INSERT INTO ticks VALUES ('x', ?, {row})", (str(key) * 50,))
os.kill(os.getpid(), 9)
"""


def decide(ledger: ScheduleLedger, now: datetime, owner: str = "me") -> list[TickRecord]:
    """Applies the policy to the schedule `sales`."""
    return ledger.decide("sales", now, owner, lambda schedule, known, _: policy.decide(schedule, known, now))


def test_a_schedule_is_kept(ledger: ScheduleLedger, nightly: Nightly) -> None:
    """Whole, readable by its owner only; a second one of its name is rejected unless it is asked for."""
    ledger.put(nightly(), new=True)
    with pytest.raises(SettingsError, match="pipeline sales has a schedule; replace it with --replace"):
        ledger.put(nightly(overlap="queue"), new=True)
    before = ledger.schedules()
    ledger.put(nightly(overlap="queue"))

    assert (before, ledger.schedules()) == ([nightly()], [nightly(overlap="queue")])
    assert ledger.file.stat().st_mode & 0o077 == 0


def test_a_tick_is_kept(ledger: ScheduleLedger, nightly: Nightly, at: At) -> None:
    """From its start to its end, and only who knows its state may change it."""
    ledger.put(nightly(since=at("2026-03-09")))
    (started,) = decide(ledger, at("2026-03-09T02:00:05"))
    ended = ledger.change(started, state="pushed", reason="version 3", exit_code=0, ended=at("2026-03-09T02:10"))

    assert (started.owner, started.starts, started.started) == ("me", 1, at("2026-03-09T02:00:05"))
    assert ledger.ticks("sales") == [ended]
    assert ledger.change(started, state="failed") is None
    assert ledger.open_ticks() == []


def test_one_of_many_schedulers_starts_a_tick(ledger: ScheduleLedger, nightly: Nightly, at: At) -> None:
    """C4: eight processes decide on the same tick at the same moment; seven do nothing."""
    ledger.put(nightly(since=at("2026-03-09")))
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(8), context.Queue()

    def race(number: int) -> None:
        barrier.wait()
        answers.put([each.owner for each in decide(ledger, at("2026-03-09T02:00:05"), str(number))])

    racing = [context.Process(target=race, args=[number]) for number in range(8)]
    for process in racing:
        process.start()
    found = [answers.get(timeout=60) for _ in racing]
    for process in racing:
        process.join()
    (record,) = ledger.ticks("sales")

    assert sorted(map(len, found)) == [0] * 7 + [1]
    assert [owner for owners in found for owner in owners] == [record.owner]


def test_a_tick_is_there_once(ledger: ScheduleLedger, nightly: Nightly, at: At) -> None:
    """C3, C4: however often and at whatever times the ledger is asked, also after the clock was set back."""
    ledger.put(nightly(since=at("2026-03-01")))
    hours = [at("2026-03-01") + timedelta(hours=hour) for hour in (*range(120), *range(60), *range(180))]
    for hour in hours:
        for record in decide(ledger, hour):
            ledger.change(record, state="pushed")

    assert [each.tick.local.day for each in ledger.ticks("sales")] == list(range(1, 9))
    assert {each.starts for each in ledger.ticks("sales")} == {1}


def test_old_ticks_are_pruned(ledger: ScheduleLedger, nightly: Nightly, at: At) -> None:
    """A ledger does not grow for ever."""
    ledger.put(nightly(rule="every 1m", since=at("2026-03-01")))
    decided = [
        TickDecision(tick, "missed", "") for tick in nightly(rule="every 1m").timetable.first(1500, at("2026-03-01"))
    ]
    ledger.decide("sales", at("2026-03-03"), "me", lambda *_: decided)

    kept = ledger.ticks("sales", 5000)

    assert [each.tick for each in kept] == [each.tick for each in decided][-policy.LOOK_BACK - 1 :]


def test_a_clock_that_was_far_ahead_repeats_nothing(ledger: ScheduleLedger, nightly: Nightly, at: At) -> None:
    """C3: thousands of ticks of a false future hide neither the ticks of the present nor their run."""
    ledger.put(nightly(since=at("2026-03-08"), catch_up="none"))
    ahead = decide(ledger, at("2036-03-01"))
    started = decide(ledger, at("2026-03-09T02:00:05"))
    again = [decide(ledger, at(f"2026-03-09T02:00:{second}")) for second in (10, 20)]
    ledger.change(started[-1], state="pushed")

    assert len(ahead) == policy.LOOK_BACK
    assert [each.state for each in started] == ["missed", "running"]
    assert again == [[], []]
    assert [each.state for each in decide(ledger, at("2026-03-10T02:00:05"))] == ["running"]


def test_a_run_longer_than_the_ledger_looks_back(ledger: ScheduleLedger, nightly: Nightly, at: At) -> None:
    """C1: a run that outlasts a thousand ticks is still the one that goes on."""
    ledger.put(nightly(rule="every 1m", since=at("2026-03-01")))
    decide(ledger, at("2026-03-01T00:01"))
    for hour in range(1, 20):
        decide(ledger, at("2026-03-01") + timedelta(hours=hour))

    assert [each.state for each in ledger.open_ticks()] == ["running"]


def test_a_writer_that_is_killed(ledger: ScheduleLedger, nightly: Nightly) -> None:
    """Its half-written change is undone by the next process that reads: the ledger needs no repair by hand."""
    ledger.put(nightly())
    done = subprocess.run([sys.executable, "-c", _KILLED_WRITER, str(ledger.file)], check=False)
    has_journal = ledger.file.with_name("schedule.db-journal").exists()

    assert (done.returncode, has_journal) == (-signal.SIGKILL, True)
    assert ledger.schedules() == [nightly()]


def test_a_removed_schedule_leaves_nothing(ledger: ScheduleLedger, nightly: Nightly, at: At) -> None:
    """Its run may go on; a change of its tick has no effect."""
    ledger.put(nightly(since=at("2026-03-09")))
    (started,) = decide(ledger, at("2026-03-09T02:00:05"))
    ledger.remove("sales")

    assert (ledger.schedules(), ledger.ticks("sales"), ledger.change(started, state="pushed")) == ([], [], None)
    with pytest.raises(SettingsError, match="pipeline sales has no schedule"):
        ledger.remove("sales")


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\0" + bytes(4080)])
def test_a_damaged_file_is_named(content: bytes, ledger: ScheduleLedger) -> None:
    """It is never taken for an empty one: schedules would be gone without a word."""
    ledger.file.parent.mkdir()
    ledger.file.write_bytes(content)

    with pytest.raises(PenstockError, match=r"schedule\.db: "):
        ledger.schedules()


def test_a_schedule_of_another_version_is_named(ledger: ScheduleLedger, nightly: Nightly) -> None:
    """One root of many: the scheduler says so, and goes on with the others."""
    ledger.put(nightly())
    with contextlib.closing(sqlite3.connect(ledger.file)) as db:
        db.execute("""UPDATE schedules SET fields = '{"name": "sales", "more": 1, "since": "", "resumed": ""}'""")
        db.commit()

    with pytest.raises(PenstockError, match=r"schedule\.db: .* a schedule has unknown fields; restore the file"):
        ledger.schedules()


def test_a_full_disk_is_named(tiny_disk: Path, nightly: Nightly, at: At) -> None:
    """What was decided is kept nowhere, and so it is decided again."""
    ledger = ScheduleLedger(tiny_disk / ".penstock")
    ledger.put(nightly(since=at("2026-03-09")))
    with (tiny_disk / "fill").open("wb", buffering=0) as full, contextlib.suppress(OSError):
        while full.write(bytes(4096)):
            pass
    with pytest.raises(DiskFull, match="no space left on its disk"):
        decide(ledger, at("2026-03-09T02:00:05"))
    (tiny_disk / "fill").unlink()

    assert [each.state for each in decide(ledger, at("2026-03-09T02:00:20"))] == ["running"]


def test_another_time_zone_loses_no_tick(ledger: ScheduleLedger, nightly: Nightly, at: At) -> None:
    """C3: further west, the hours of the zone before come again, and are due again."""
    hourly = nightly(rule="cron 0 * * * *", zone="UTC", since=at("2026-03-10"))
    ledger.put(hourly)
    for record in decide(ledger, at("2026-03-10T12:00")):
        ledger.change(record, state="pushed")
    ledger.put(replace(hourly, zone="America/New_York", since=at("2026-03-10T12:30")))
    started = []
    for hour in range(13, 19):
        for record in decide(ledger, at(f"2026-03-10T{hour}:00")):
            started.append(record.tick.key)
            ledger.change(record, state="pushed")

    assert started == [f"2026-03-10T{hour:02d}:00" for hour in range(9, 15)]
    assert ledger.ticks("sales")[0].tick.key == "2026-03-10T01:00"
