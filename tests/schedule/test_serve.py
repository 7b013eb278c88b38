"""The scheduler: real processes and a real ledger, with a clock that tests move."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from components import helper_process
from components.errors import DiskFull, Locked, PenstockError
from pipelines.schedule import processes, view
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.outcome import result_of
from pipelines.schedule.policy import TickRecord
from pipelines.schedule.processes import Child, RetrainCommand
from pipelines.schedule.schedule import PipelineSchedule
from pipelines.schedule.serve import Scheduler
from tests.schedule.fake_clock import FakeClock

At = Callable[[str], datetime]
Nightly = Callable[..., PipelineSchedule]
PUSHED = "span 2026-03-09: pushed version 1, cold start: no earlier model"
NEXT = timedelta(days=1)


@dataclass
class Retrainings:
    """Starts small processes in place of retrainings; each prints a line and ends with a code on request."""

    home: Path
    line: str = PUSHED
    code: int = 0
    started: list[RetrainCommand] = field(default_factory=list)
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: RetrainCommand) -> Child:
        """Starts a process that waits for the file `go`, or for a signal."""
        command.output.parent.mkdir(parents=True, exist_ok=True)
        self.started.append(command)
        script = 'read word < "$0"; echo "$1"; exit "$2"'
        with command.output.open("ab") as output:
            child = subprocess.Popen(
                ["/bin/sh", "-c", script, str(self.home / "go"), self.line, str(self.code)],
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.children.append(child)
        return child

    def finish(self) -> None:
        """Lets the newest process end, and waits for it."""
        with (self.home / "go").open("w") as go:
            go.write("on\n")
        self.children[-1].wait()

    def end(self) -> None:
        """Kills what is left."""
        for child in self.children:
            child.kill()
            child.wait()


@pytest.fixture
def runs(tmp_path: Path) -> Any:
    """Retrainings that end when a test lets them."""
    os.mkfifo(tmp_path / "go")
    made = Retrainings(tmp_path)
    yield made
    made.end()


@dataclass
class Bench:
    """A root with one schedule, and schedulers for it."""

    ledger: ScheduleLedger
    runs: Retrainings
    clock: FakeClock
    said: list[str] = field(default_factory=list)
    notified: list[str] = field(default_factory=list)

    def scheduler(self, **more: Any) -> Scheduler:
        """Returns a new scheduler."""
        folder = self.ledger.file.parent
        notify = lambda _, record: self.notified.append(record.state)  # noqa: E731 - one line
        return Scheduler(lambda: [folder], self.clock, self.said.append, start=self.runs.start, notify=notify, **more)

    def states(self) -> list[str]:
        """Returns the states of all ticks."""
        return [each.state for each in self.ledger.ticks("sales")]

    def newest(self) -> TickRecord:
        """Returns the newest tick."""
        return self.ledger.ticks("sales")[-1]


@pytest.fixture
def bench(ledger: ScheduleLedger, runs: Retrainings, nightly: Nightly, at: At) -> Bench:
    """A schedule of three o'clock, one second after its tick of 9 March."""
    ledger.put(nightly(since=at("2026-03-09")))
    return Bench(ledger, runs, FakeClock(at("2026-03-09T02:00:01")))


def test_a_tick_is_a_retraining_at_its_time(bench: Bench, at: At) -> None:
    """C4: it is started once however often the scheduler looks; its end is in the ledger, and is notified."""
    scheduler = bench.scheduler()
    wakes = [scheduler.step(), scheduler.step()]
    running = bench.newest()
    bench.runs.finish()
    scheduler.step()
    (command,) = bench.runs.started

    assert wakes == [at("2026-03-10T02:00")] * 2
    assert command.arguments == (
        "retrain", "--timezone", "Europe/Berlin", "--at", "2026-03-09T03:00:00", "--run-id", running.run_id, "--wait",
        "tabular", "--data", "d/{SPAN}",
    )  # fmt: skip
    assert (running.state, bench.newest().state, bench.newest().reason) == ("running", "pushed", PUSHED)
    assert (bench.newest().exit_code, bench.newest().ended, bench.notified) == (0, bench.clock.time, ["pushed"])


@pytest.mark.parametrize(
    ("code", "line", "state"),
    [
        (0, "span 2026-03-09: up to date, version 3 is live", "up to date"),
        (0, "done: span 2026-03-09, version 3 is live", "up to date"),
        (0, "span 2026-03-09: its model was withdrawn, and is not pushed; version 3 is live", "withdrawn"),
        (3, "span 2026-03-09: not better: not blessed: …; version 3 is live", "not better"),
        (5, "span 2026-03-09: gate stopped: …; version 3 is live", "gate stopped"),
        (9, "penstock: span 2026-03-09 is not there: no file d/2026-03-09", "late"),
        (10, "penstock: span 2026-03-09 is skipped, because it is not there", "skipped"),
        (7, "penstock: no space left on the disk", "failed"),
        (1, "Traceback", "failed"),
    ],
)
def test_the_exit_code_decides_the_state(code: int, line: str, state: str, bench: Bench) -> None:
    """With the last line as the reason."""
    bench.runs.code, bench.runs.line = code, line
    scheduler = bench.scheduler()
    scheduler.step()
    bench.runs.finish()
    scheduler.step()

    assert (bench.newest().state, bench.newest().exit_code) == (state, code)
    assert bench.newest().reason == {"Traceback": "exit code 1"}.get(line, line.removeprefix("penstock: "))


def test_two_runs_of_a_root_are_never_at_once(bench: Bench) -> None:
    """C1: neither by two schedulers, nor by a schedule of another pipeline on the same root."""
    bench.ledger.put(PipelineSchedule(**{**vars(bench.ledger.find("sales")), "name": "stock"}))
    first, second = bench.scheduler(at_once=5), bench.scheduler(at_once=5)
    first.step()
    second.step()
    second.step()
    states = {each.schedule: each.state for each in bench.ledger.open_ticks()}

    assert states == {"sales": "running", "stock": "queued"}
    assert len(bench.runs.started) == 1
    with pytest.raises(Locked, match="the run of another schedule of this root is going on"):
        bench.scheduler().run_by_hand(bench.ledger, "stock")
    bench.runs.finish()
    first.step()
    assert {each.schedule: each.state for each in bench.ledger.open_ticks()} == {"stock": "running"}


def test_a_run_that_is_killed_is_started_again(bench: Bench) -> None:
    """With the same run id, up to three times; then the tick has failed."""
    scheduler = bench.scheduler()
    found = []
    for _ in range(3):
        scheduler.step()
        os.kill(bench.runs.children[-1].pid, signal.SIGKILL)
        bench.runs.children[-1].wait()
        found.append((bench.newest().state, bench.newest().run_id))
    scheduler.step()

    assert len(bench.runs.started) == 3
    assert {run for _, run in found} == {bench.newest().run_id}
    assert (bench.newest().state, bench.newest().reason) == (
        "failed",
        "its process was killed by SIGKILL, 3 times",
    )


@pytest.mark.parametrize("end", ["runs on", "has ended", "was killed"])
def test_a_scheduler_that_was_killed(end: str, bench: Bench) -> None:
    """The next one waits for the run, notes how it ended, or starts it again; the tick is done once."""
    child = bench.runs.start(
        RetrainCommand((), bench.runs.home, bench.runs.home / "logs/schedule/sales-2026-03-09T0300.txt")
    )
    dead = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner, process = processes.identity(dead.pid), processes.identity(child.pid)
    dead.kill()
    dead.wait()
    now = bench.clock.time
    (record,) = bench.ledger.decide("sales", now, owner, bench.scheduler()._policy(now))
    bench.ledger.change(record, process=process)
    scheduler = bench.scheduler()
    if end == "was killed":
        child.kill()  # type: ignore[attr-defined]
    if end == "has ended":
        bench.runs.finish()
    child.wait(10) if end != "runs on" else None
    bench.clock.time += NEXT / 2
    scheduler.step()
    states = [bench.states()]
    if end != "has ended":
        bench.runs.finish()
        scheduler.step()
        states.append(bench.states())

    assert states == {"runs on": [["running"], ["pushed"]], "has ended": [["pushed"]]}.get(
        end, [["running"], ["pushed"]]
    )
    assert len(bench.runs.started) == {"was killed": 2}.get(end, 1)


def test_a_scheduler_that_is_stopped_stops_its_run(bench: Bench) -> None:
    """The tick is queued, and the next scheduler starts it."""
    scheduler = bench.scheduler()
    scheduler.step()
    bench.clock.stopped_by = signal.SIGTERM
    scheduler.run()
    code, states, reason = bench.runs.children[0].returncode, bench.states(), bench.newest().reason
    bench.clock.stopped_by = 0
    bench.scheduler().step()

    assert (code, states) == (-signal.SIGTERM, ["queued"])
    assert reason == "stopped with the scheduler; it goes on with the next one"
    assert (bench.states(), len(bench.runs.started)) == (["running"], 2)


def test_a_scheduler_sleeps_until_the_next_tick(bench: Bench, at: At) -> None:
    """But ten seconds at most, because schedules may change."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        bench.clock.time += timedelta(seconds=seconds)
        bench.clock.stopped_by = int(len(slept) == 3) * signal.SIGINT

    bench.clock.time = at("2026-03-09T01:59:44")
    bench.clock.sleep = sleep  # type: ignore[method-assign]
    bench.scheduler().run()

    assert slept == [10.0, 6.0, 10.0]
    assert len(bench.runs.started) == 1


def test_a_full_disk_is_waited_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a run is noted when the ledger can be written again; the trouble is said once."""
    scheduler = bench.scheduler()
    scheduler.step()
    bench.runs.finish()
    with monkeypatch.context() as patch:
        patch.setattr(ScheduleLedger, "change", lambda *_, **__: (_ for _ in ()).throw(DiskFull("no space left")))
        scheduler.step()
        scheduler.step()
    full = bench.states()
    scheduler.step()

    assert (full, bench.states()) == (["running"], ["pushed"])
    assert [line for line in bench.said if "no space left" in line] == ["2026-03-09T02:00:01Z no space left"]


def test_trouble_that_comes_back_is_said_again(bench: Bench) -> None:
    """Once each time."""
    scheduler, good = bench.scheduler(), bench.ledger.file.read_bytes()
    for content in (b"bad" * 99, b"bad" * 99, good, b"bad" * 99):
        bench.ledger.file.write_bytes(content)
        scheduler.step()

    assert len([line for line in bench.said if "cannot be read" in line]) == 2


def test_a_folder_that_is_gone(bench: Bench, nightly: Nightly, at: At) -> None:
    """The tick has failed after three starts, and says so."""
    bench.ledger.put(nightly(since=at("2026-03-09"), folder="/nowhere"))
    folder, states = bench.ledger.file.parent, []
    scheduler = Scheduler(lambda: [folder], bench.clock, bench.said.append)
    for _ in range(4):
        scheduler.step()
        states.append(bench.newest().state)

    assert states == ["queued", "queued", "failed", "failed"]
    assert bench.newest().reason == "/nowhere: No such file or directory, 3 times"


def test_a_process_that_cannot_be_started(bench: Bench, nightly: Nightly, at: At, tmp_path: Path) -> None:
    """For a moment, such as on a full disk: the tick is started by the next step."""
    bench.ledger.put(nightly(since=at("2026-03-09"), folder=str(tmp_path / "away")))
    folder = bench.ledger.file.parent
    scheduler = Scheduler(lambda: [folder], bench.clock, bench.said.append)
    scheduler.step()
    (tmp_path / "away").mkdir()
    scheduler.step()
    running = bench.newest()
    scheduler.stop()

    assert (running.state, running.starts) == ("running", 2)


@pytest.mark.parametrize("gone", ["schedule", "file"])
def test_a_schedule_that_is_removed_during_its_run(gone: str, bench: Bench, tmp_path: Path, nightly: Nightly) -> None:
    """The run goes on and has its place; after it, ticks of other pipelines are started."""
    other = ScheduleLedger(tmp_path / "other" / ".penstock")
    other.put(nightly(name="stock", since=bench.ledger.find("sales").since))
    folders = [bench.ledger.file.parent, other.file.parent]
    scheduler = Scheduler(lambda: folders, bench.clock, bench.said.append, start=bench.runs.start)
    scheduler.step()
    if gone == "schedule":
        bench.ledger.remove("sales")
    else:
        folders.pop(0)
    scheduler.step()
    during = [each.state for each in other.ticks("stock")]
    bench.runs.finish()
    scheduler.step()

    assert (during, [each.state for each in other.ticks("stock")]) == (["queued"], ["running"])


def test_roots_take_turns(bench: Bench, tmp_path: Path, nightly: Nightly) -> None:
    """A root whose runs take longer than its interval, and wait in a queue, leaves room for another one."""
    other = ScheduleLedger(tmp_path / "other" / ".penstock")
    for ledger in (bench.ledger, other):
        ledger.put(nightly(since=bench.ledger.find("sales").since, overlap="queue"))
    folders = [bench.ledger.file.parent, other.file.parent]
    scheduler, running = Scheduler(lambda: folders, bench.clock, bench.said.append, start=bench.runs.start), []
    for _ in range(4):
        scheduler.step()
        bench.clock.time += NEXT
        running += [
            ledger for ledger in (bench.ledger, other) for each in ledger.open_ticks() if each.state == "running"
        ]
        bench.runs.finish()

    assert running == [bench.ledger, other] * 2


def test_a_run_by_hand_whose_schedule_is_removed(bench: Bench) -> None:
    """It is waited for, and the error says where its result is."""

    def start(command: RetrainCommand) -> Child:
        bench.ledger.remove("sales")
        child = bench.runs.start(command)
        bench.runs.finish()
        return child

    scheduler = Scheduler(lambda: [bench.ledger.file.parent], bench.clock, bench.said.append, start=start)
    with pytest.raises(PenstockError, match="its schedule was removed while the tick ran"):
        scheduler.run_by_hand(bench.ledger, "sales")


def test_a_root_that_cannot_be_read_keeps_no_run_alive(bench: Bench) -> None:
    """A scheduler that is stopped stops its runs also if it can no longer read their ledger."""
    scheduler = bench.scheduler()
    scheduler.step()
    bench.ledger.file.write_bytes(b"not a database")
    scheduler.stop()

    assert bench.runs.children[0].wait(60) == -signal.SIGTERM
    assert any("the schedules cannot be read" in line for line in bench.said)


def test_every_signal_is_an_end() -> None:
    """A real-time signal has no name."""
    assert result_of(-signal.SIGKILL, ()).reason == "its process was killed by SIGKILL"
    assert result_of(-40, ()).reason == "its process was killed by signal 40"


def test_a_run_by_hand_is_waited_for(bench: Bench, at: At) -> None:
    """A real retraining, which finds no data: its tick is in the ledger, and the schedule's own ticks are as before."""
    bench.clock.time = at("2026-03-09T01:00")
    scheduler = Scheduler(lambda: [bench.ledger.file.parent], bench.clock, bench.said.append)
    ended = scheduler.run_by_hand(bench.ledger, "sales")

    assert (ended.state, ended.exit_code, ended.tick.is_by_hand) == ("failed", 4, True)
    assert ended.reason.endswith(
        "d/{SPAN}: found no span; expected at least one, or the number of the one that is due (--span)"
    )
    bench.clock.time = at("2026-03-09T02:00")
    bench.scheduler().step()
    assert bench.states() == ["failed", "running"]


def test_a_run_by_hand_that_cannot_start(bench: Bench, nightly: Nightly) -> None:
    """It has failed, and is not queued: nobody waits for it any more."""
    bench.ledger.put(nightly(folder="/nowhere"))
    ended = Scheduler(lambda: [bench.ledger.file.parent], bench.clock, bench.said.append).run_by_hand(
        bench.ledger, "sales"
    )

    assert (ended.state, ended.reason) == ("failed", "/nowhere: No such file or directory")


def test_a_run_by_hand_after_one_that_was_killed(bench: Bench) -> None:
    """With its scheduler: that tick is queued, and the new one is not in its way; no scheduler need run."""
    now = bench.clock.time
    dead = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = processes.identity(dead.pid)
    dead.kill()
    dead.wait()
    bench.ledger.decide("sales", now, owner, bench.scheduler()._policy(now))

    def start(command: RetrainCommand) -> Child:
        child = bench.runs.start(command)
        bench.runs.finish()
        return child

    scheduler = Scheduler(lambda: [bench.ledger.file.parent], bench.clock, bench.said.append, start=start)
    ended = scheduler.run_by_hand(bench.ledger, "sales")

    assert (ended.state, ended.tick.is_by_hand, bench.states()) == ("pushed", True, ["queued", "pushed"])


def test_a_signal_ends_a_run_by_hand_at_once(bench: Bench) -> None:
    """It is waited for by the clock, which a signal ends."""

    def sleep(seconds: float) -> None:
        bench.clock.time += timedelta(seconds=seconds)
        bench.clock.stopped_by = signal.SIGTERM

    bench.clock.sleep = sleep  # type: ignore[method-assign]
    ended = bench.scheduler().run_by_hand(bench.ledger, "sales")

    assert (ended.state, bench.runs.children[0].returncode) == ("queued", -signal.SIGTERM)


def test_others_see_what_is_due_and_late(bench: Bench) -> None:
    """The read-only view: what runs, what comes, and ticks that no scheduler handles."""
    bench.clock.time += timedelta(minutes=3)
    (late,) = view.read(bench.ledger.file.parent, bench.clock.time)
    scheduler = bench.scheduler()
    scheduler.step()
    (running,) = view.read(bench.ledger.file.parent, bench.clock.time, coming=2)

    assert ([tick.key for tick in late.undecided], late.running) == (["2026-03-09T03:00"], None)
    assert (running.is_late, running.is_running, running.running) == (False, True, bench.newest())
    assert [tick.key for tick in running.next] == ["2026-03-10T03:00", "2026-03-11T03:00"]


def test_the_output_of_a_scheduler_is_on_a_full_disk(bench: Bench, nightly: Nightly) -> None:
    """What is due is decided all the same, and SIGTERM stops it."""
    bench.ledger.put(nightly(rule="every 1m", folder="/nowhere"))
    command = helper_process.command(
        "from pipelines.cli import main; main()", "schedule", "serve", str(bench.runs.home)
    )
    with Path("/dev/full").open("wb") as full, subprocess.Popen(command, stdout=full, stderr=subprocess.PIPE) as serve:
        try:
            while not any(each.reason for each in bench.ledger.ticks("sales")) and serve.poll() is None:
                time.sleep(0.05)
            serve.terminate()
            _, said = serve.communicate()
        finally:
            serve.kill()

    assert bench.newest().reason.startswith("/nowhere: No such file or directory")
    assert b"Traceback" not in said
