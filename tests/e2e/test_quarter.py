"""A quarter of a year of a schedule: ninety ticks of real retrainings, with a clock that only this test moves.

Casablanca sets its clock back on 15 February 2026 at 03:00 and forward on 22 March at 02:00: both at the time of a
tick, within one quarter. Every fourth day has data, so that there are 23 trainings; on the others the span is late.
"""

import csv
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from components.errors import DiskFull
from components.serving import live
from components.settings.gc import Gc
from pipelines.journal import run_id
from pipelines.operate.ticks import TickLedger
from pipelines.orchestration.metadata.store import Store
from pipelines.schedule import processes
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.policy import TickRecord
from pipelines.schedule.processes import Child, RetrainCommand
from pipelines.schedule.schedule import PipelineSchedule
from pipelines.schedule.serve import Scheduler
from pipelines.ui import overview
from pipelines.watch import status
from tests.schedule.fake_clock import FakeClock

pytestmark = [pytest.mark.all, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

FIRST = date(2026, 2, 1)
TICKS = 90
SET_BACK, SET_FORWARD = 14, 49  # ticks, counted from 0
DOWN = (16, 17, 18)  # no scheduler runs
LONG, KILLED_RUN, FULL, KILLED_SCHEDULER, RACE = 30, 38, 58, 66, 74  # what happens to these
WITH_DATA = sorted({*range(2, TICKS, 4), SET_FORWARD})
CHOSEN = (
    "train.epochs=1", "evaluate.min_accuracy=0", "evaluate.max_drop=1", "evaluate.max_slice_drop=1", "gate.drift=off",
    "ingest.window=last 7", "ingest.gaps=allow 6", "ingest.late=skip",
)  # fmt: skip


@dataclass
class ForkedChild:
    """A forked retraining, as a scheduler sees its child."""

    process: Any  # of the fork server
    output: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self.process.pid)

    def poll(self) -> int | None:
        """Returns the exit code, once its output is where the scheduler looks for it."""
        result = self.process.ended()
        if result is None:
            return None
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.output.write_text(result.output)
        return int(result.code)

    def wait(self, timeout: float = 0) -> int:
        """Waits for its end."""
        del timeout
        self.process.wait()
        code = self.poll()
        assert code is not None
        return code


def write_day(folder: Path, day: date) -> None:
    """Writes 120 rows, whose size decides the label."""
    chosen = random.Random(day.isoformat())
    (folder / day.isoformat()).mkdir(parents=True)
    with (folder / day.isoformat() / "a.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["size", "label"])
        for number in range(120):
            rows.writerow([round(chosen.gauss(6 * (number % 2), 1), 3), ["ant", "wasp"][number % 2]])


class Quarter:
    """A root with a nightly schedule, its scheduler, and what happens to them."""

    def __init__(self, home: Path, root: Path, server: Any) -> None:
        self.root, self._server = root, server
        flags = [word for setting in CHOSEN for word in ("--set", setting)]
        data = home / "data" / "{YYYY}-{MM}-{DD}" / "*.csv"
        self.schedule = PipelineSchedule(
            name="sales", task="tabular",
            arguments=("--data", str(data), "--root", str(root), "--name", "sales", *flags),
            folder=str(home), rule="cron 30 2 * * *", zone="Africa/Casablanca",
            since=datetime(2026, 1, 31, 12, tzinfo=timezone.utc),
        )  # fmt: skip
        self.ticks = self.schedule.timetable.first(TICKS, self.schedule.since)
        for number in WITH_DATA:
            write_day(home / "data", FIRST + timedelta(days=number - 1))
        self.ledger = ScheduleLedger(root / ".penstock")
        self.ledger.put(self.schedule)
        self.clock = FakeClock(self.schedule.since)
        self.children: list[Child] = []
        self.scheduler = self.new_scheduler(self.start)

    def new_scheduler(self, start: Callable[[RetrainCommand], Child]) -> Scheduler:
        """Returns a scheduler of this root."""
        return Scheduler(lambda: [self.ledger.file.parent], self.clock, lambda _: None, start=start)

    def start(self, command: RetrainCommand) -> Child:
        """Forks a retraining, so that it need not import TensorFlow again."""
        forked = self._server.start_command(*command.arguments)
        self.children.append(ForkedChild(forked, command.output))
        return self.children[-1]

    def at(self, number: int, seconds: float = 1) -> None:
        """Moves the clock to so many seconds after a tick, and steps."""
        self.clock.time = self.ticks[number].at + timedelta(seconds=seconds)
        self.scheduler.step()

    def ended(self) -> None:
        """Waits for the run that goes on."""
        self.children[-1].wait(0)
        self.scheduler.step()

    def pass_by(self, numbers: Sequence[int]) -> None:
        """Lets ticks come and end, one after another."""
        for number in numbers:
            before = len(self.children)
            self.at(number)
            if len(self.children) > before:
                self.ended()

    def serve(self, ready: Any) -> None:
        """Steps once in a process of its own, and waits for the run if it has started one; that is its exit code."""
        started: list[Child] = []

        def start(command: RetrainCommand) -> Child:
            started.append(processes.start(command))
            return started[-1]

        scheduler = self.new_scheduler(start)
        ready.wait()
        scheduler.step()
        for child in started:
            child.wait(900)
            scheduler.step()
        os._exit(len(started))

    def schedulers(self, number: int, count: int) -> list[multiprocessing.process.BaseProcess]:
        """Starts schedulers that step at the same moment, a second after a tick."""
        self.clock.time = self.ticks[number].at + timedelta(seconds=1)
        context = multiprocessing.get_context("fork")
        ready = context.Barrier(count)
        made = [context.Process(target=self.serve, args=[ready]) for _ in range(count)]
        for process in made:
            process.start()
        return list(made)

    def record(self, number: int) -> TickRecord | None:
        """Returns a tick from the ledger."""
        return next((each for each in self.ledger.ticks("sales") if each.tick.key == self.ticks[number].key), None)

    def is_training(self) -> bool:
        """Whether the Trainer runs."""
        newest = next(Store(self.root / "metadata.db", "sales").executions("Trainer"), None)
        return newest is not None and newest.state == "RUNNING"


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for something that another process does."""
    deadline = time.monotonic() + 900
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def clock_is_set_back(quarter: Quarter) -> None:
    """By an hour, as daylight saving does, and then by two hours, by hand."""
    before = len(quarter.children)
    quarter.pass_by([SET_BACK])
    quarter.at(SET_BACK, seconds=3601)  # the clock on the wall shows 02:30 again
    quarter.at(SET_BACK, seconds=-7200)
    quarter.at(SET_BACK)

    assert len(quarter.children) == before + 1


def scheduler_is_down(quarter: Quarter) -> None:
    """For three days, until half past twelve."""
    quarter.at(DOWN[-1], seconds=10 * 3600)
    quarter.ended()


def run_is_long(quarter: Quarter) -> None:
    """It goes on when the next tick is due."""
    quarter.at(LONG)
    os.kill(quarter.children[-1].pid, signal.SIGSTOP)
    quarter.at(LONG + 1)
    os.kill(quarter.children[-1].pid, signal.SIGCONT)
    quarter.ended()


def run_is_killed(quarter: Quarter) -> None:
    """In the Trainer; the scheduler starts it again."""
    quarter.at(KILLED_RUN)
    wait_until(quarter.is_training)
    os.kill(quarter.children[-1].pid, signal.SIGKILL)
    quarter.ended()
    quarter.ended()


def disk_is_full(quarter: Quarter, disk: Path) -> None:
    """But for 200 KB, for one tick."""
    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize - 200_000))
    quarter.pass_by([FULL])
    (disk / "ballast").unlink()


def scheduler_is_killed(quarter: Quarter) -> None:
    """Its run goes on, and another scheduler notes how it ends."""
    (scheduler,) = quarter.schedulers(KILLED_SCHEDULER, 1)
    wait_until(lambda: (found := quarter.record(KILLED_SCHEDULER)) is not None and bool(found.process))
    os.kill(scheduler.pid or 0, signal.SIGKILL)
    scheduler.join()
    orphan = quarter.record(KILLED_SCHEDULER)
    assert orphan is not None
    assert processes.is_alive(orphan.process)
    quarter.scheduler.step()
    wait_until(lambda: not processes.is_alive(orphan.process))
    quarter.scheduler.step()


def schedulers_race(quarter: Quarter) -> None:
    """Two at the same moment: one starts the tick, the other does nothing."""
    racing = quarter.schedulers(RACE, 2)
    for process in racing:
        process.join()

    assert sorted(process.exitcode or 0 for process in racing) == [0, 1]


def test_every_tick_ends_once_in_the_state_that_its_policy_names(
    tmp_path: Path, fork_server: Any, mounted: Callable[[Path, str], AbstractContextManager[Path]]
) -> None:
    """C1, C2, C3, C4: ninety ticks, with all that happens in a quarter, on a disk of 400 MB."""
    with mounted(tmp_path / "disk", "400m") as disk:
        quarter = Quarter(tmp_path, disk / "root", fork_server)
        quarter.pass_by(range(SET_BACK))
        clock_is_set_back(quarter)
        quarter.pass_by(range(SET_BACK + 1, DOWN[0]))
        scheduler_is_down(quarter)
        quarter.pass_by(range(DOWN[-1] + 1, LONG))
        run_is_long(quarter)
        quarter.pass_by(range(LONG + 2, KILLED_RUN))
        run_is_killed(quarter)
        quarter.pass_by(range(KILLED_RUN + 1, FULL))  # the clock is set forward at one of them
        disk_is_full(quarter, disk)
        quarter.pass_by(range(FULL + 1, KILLED_SCHEDULER))
        scheduler_is_killed(quarter)
        quarter.pass_by(range(KILLED_SCHEDULER + 1, RACE))
        schedulers_race(quarter)
        quarter.pass_by(range(RACE + 1, TICKS))

        assert_ledger(quarter)
        assert_agreement(quarter)
        assert_views(quarter)
        assert_retention(quarter)


def assert_ledger(quarter: Quarter) -> None:
    """Every tick is there once, in the state that the policy names, and was started as often as it should."""
    records = quarter.ledger.ticks("sales")
    expected = dict.fromkeys(range(TICKS), "skipped") | dict.fromkeys(WITH_DATA, "pushed")
    expected |= dict.fromkeys(DOWN[:-1], "missed") | {FULL: "failed"}
    starts = dict.fromkeys(range(TICKS), 1) | dict.fromkeys((*DOWN[:-1], LONG + 1), 0) | {KILLED_RUN: 2}

    assert [each.tick for each in records] == quarter.ticks
    assert {n: record.state for n, record in enumerate(records)} == expected
    assert {n: record.starts for n, record in enumerate(records)} == starts
    assert records[LONG + 1].reason == f"the run of tick {records[LONG].tick.key} was still going on (--overlap skip)"
    assert records[FULL].exit_code == DiskFull.exit_code
    assert len({record.run_id for record in records if record.starts}) == TICKS - 3


def assert_agreement(quarter: Quarter) -> None:
    """The live pointer and the retrainings' own ledger say the same as the ledger of ticks."""
    records = quarter.ledger.ticks("sales")
    pushed = [n for n, record in enumerate(records) if record.state == "pushed"]
    spans = [(FIRST + timedelta(days=n - 1)).isoformat() for n in pushed]
    pointer = live.current(quarter.root, quarter.root / "serving", "sales")
    attempts = TickLedger(quarter.root / ".penstock" / "ticks" / "sales")

    assert pointer is not None
    assert [move.version for move in pointer.moves] == list(range(1, len(pushed) + 1))
    assert [[each.outcome for each in attempts.of_span(span)] for span in spans] == [["pushed"]] * len(spans)


def assert_views(quarter: Quarter) -> None:
    """Status and page say what the metadata and the ledger say."""
    records = quarter.ledger.ticks("sales")
    pushed = {record.run_id: n for n, record in enumerate(records) if record.state == "pushed"}
    executed = Store(quarter.root / "metadata.db", "sales").by_run()
    (state,) = status.of_all(quarter.root, quarter.clock.time)
    (shown,) = overview.read(quarter.root, quarter.clock.time).pipelines

    assert state.live is not None
    assert shown.live is not None
    assert (state.health, state.running, state.live.version) == ("well", None, len(pushed))
    assert shown.live.live.version == len(pushed)
    assert [run.id for run in reversed(shown.results) if run.state == "succeeded"] == list(pushed)
    assert {run_id.of_context(c) for c, each in executed.items() if each[-1].node == "Pusher"} == pushed.keys()


def assert_retention(quarter: Quarter) -> None:
    """What `penstock gc` keeps by default, and nothing else: the newest runs, and the versions that they pushed."""
    models = list((quarter.root / "Trainer" / "model").iterdir())
    versions = sorted(int(each.name) for each in (quarter.root / "serving").iterdir() if each.name.isdigit())
    pushed = sum(record.state == "pushed" for record in quarter.ledger.ticks("sales"))

    assert versions == list(range(pushed - Gc().keep_runs + 1, pushed + 1))
    assert len(models) == Gc().keep_runs + 1  # the model that the oldest of them started from
