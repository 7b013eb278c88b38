"""What the scheduler notifies: a real scheduler and real processes, with a clock that tests move."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from components.errors import SettingsError
from pipelines import config as run_config
from pipelines.journal import calls
from pipelines.notify import after_call, bounded
from pipelines.notify.scheduler import ScheduleNotifier, config_of
from pipelines.schedule import add
from pipelines.schedule.clock import SystemClock
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.policy import TickRecord
from pipelines.schedule.processes import Child, RetrainCommand
from pipelines.schedule.schedule import PipelineSchedule
from pipelines.schedule.serve import Scheduler

At = Callable[[str], datetime]
PUSHED = "span 2026-03-09: pushed version 1, cold start: no earlier model"


@dataclass
class Nights:
    """A root with a schedule for three o'clock UTC, and schedulers whose retrainings are small processes."""

    root: Path
    time: datetime
    pace: Any
    script: str = "exit 1"
    stopped_by: int = 0
    said: list[str] = field(default_factory=list)
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Stores the schedule."""
        self.ledger = ScheduleLedger(self.root / ".penstock")
        self.ledger.put(self.schedule())

    def schedule(self, *flags: str) -> PipelineSchedule:
        """Returns the schedule."""
        words = [word for flag in flags for word in ("--set", flag)]
        return PipelineSchedule(
            name="sales", task="tabular", arguments=("--root", str(self.root), "--name", "sales", *words),
            folder=str(self.root), rule="cron 0 3 * * *", zone="UTC", since=self.time,
        )  # fmt: skip

    def now(self) -> datetime:
        """Returns the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Moves on."""
        self.time += timedelta(seconds=seconds)

    def start(self, command: RetrainCommand) -> Child:
        """Starts a shell in place of a retraining."""
        command.output.parent.mkdir(parents=True, exist_ok=True)
        with command.output.open("ab") as output:
            child = subprocess.Popen(["/bin/sh", "-c", self.script], stdout=output, stderr=output)
        self.children.append(child)
        return child

    def scheduler(self) -> Scheduler:
        """Returns a new scheduler."""
        notifier = ScheduleNotifier(self.now, self.said.append, self.pace)
        folder = self.ledger.file.parent
        return Scheduler(
            lambda: [folder], self, self.said.append, start=self.start, notify=notifier.ended, look=notifier.look
        )

    def night(self, scheduler: Scheduler, script: str) -> TickRecord:
        """Moves to the next tick, lets its retraining end, and returns the tick."""
        self.script = script
        self.time = self.schedule().timetable.first(1, self.time)[0].at + timedelta(seconds=1)
        scheduler.step()
        while (newest := self.ledger.ticks("sales")[-1]).state in ("running", "queued"):
            self.children[-1].wait()
            scheduler.step()
        return newest


@pytest.fixture
def nights(tmp_path: Path, at: At, frozen: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> Nights:
    """A schedule that notifies a webhook, as the scheduler's environment says."""
    monkeypatch.setenv("PENSTOCK_NOTIFY_WEBHOOK", receiver.url)
    (tmp_path / "root").mkdir()
    return Nights(tmp_path / "root", at("2026-03-08T12:00"), frozen.pace)


def shown(receiver: Any) -> list[str]:
    """Returns event, tick and reason of what arrived."""
    return [f"{each['event']} {each['tick']}: {each['reason']}" for each in receiver.got]


def test_what_no_retraining_can_tell(nights: Nights, receiver: Any) -> None:
    """It was killed three times, or rejected its settings, each once; the next that succeeds has recovered."""
    scheduler = nights.scheduler()
    nights.night(scheduler, "kill -9 $$")
    nights.night(scheduler, "echo 'penstock: unknown setting a.b'; exit 2")
    nights.night(scheduler, "echo 'penstock: unknown setting a.b'; exit 2")
    nights.night(scheduler, f"echo '{PUSHED}'; exit 0")

    assert shown(receiver) == [
        "failed 2026-03-09T03:00: its process was killed by SIGKILL, 3 times",
        "failed 2026-03-10T03:00: unknown setting a.b",
        f"recovered 2026-03-12T03:00: {PUSHED}",
        f"pushed 2026-03-12T03:00: {PUSHED}",
    ]
    assert [each["run"] for each in receiver.got] == [
        nights.ledger.ticks("sales")[number].run_id for number in (0, 1, 3, 3)
    ]


def test_what_a_retraining_has_told_is_not_told_again(
    nights: Nights, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of runs has it, by the run id of the tick."""
    monkeypatch.setattr(after_call, "utc_now", nights.now)
    scheduler = nights.scheduler()
    config = config_of(nights.schedule())
    nights.time = nights.schedule().timetable.first(1, nights.time)[0].at + timedelta(seconds=1)
    scheduler.step()
    run = nights.ledger.ticks("sales")[-1].run_id
    with after_call.sent(config, nights.pace), calls.opened(config, calls.Origin(run)) as call:
        call.end(1, "a fault")
    nights.children[-1].wait()
    scheduler.step()

    assert [(each["event"], each["run"], each["reason"]) for each in receiver.got] == [("failed", run, "a fault")]
    assert nights.ledger.ticks("sales")[-1].state == "failed"


def test_a_scheduler_that_was_down(nights: Nights, receiver: Any, at: At) -> None:
    """C2: ticks that no scheduler handled are notified once, and it is over when a run succeeds."""
    nights.night(nights.scheduler(), f"echo '{PUSHED}'; exit 0")
    nights.time = at("2026-03-13T09:00")
    again = nights.scheduler()
    nights.script = f"echo '{PUSHED}'; exit 0"
    again.step()
    again.step()
    nights.children[-1].wait()
    again.step()
    again.step()

    late = "late 2026-03-10T03:00: tick 2026-03-10T03:00 is due, and no scheduler has handled it"
    assert shown(receiver) == [
        f"pushed 2026-03-09T03:00: {PUSHED}",
        f"{late} (penstock schedule serve)",
        f"recovered 2026-03-13T03:00: {PUSHED}",
        f"pushed 2026-03-13T03:00: {PUSHED}",
    ]


def test_a_run_by_hand_does_the_work_of_a_tick(nights: Nights, receiver: Any, at: At, monkeypatch: Any) -> None:
    """Whether the scheduler is down or there never was one, as with cron: what a run has done since is not late."""
    config = config_of(nights.schedule())
    later = at("2026-03-10T09:00")
    monkeypatch.setattr(after_call, "utc_now", lambda: later)

    def by_hand(run: str) -> list[str]:
        with after_call.sent(config, nights.pace), calls.opened(config, calls.Origin(run)) as call:
            call.end(0, "fine")
        return [each["event"] for each in receiver.got]

    never = by_hand("A")
    nights.night(nights.scheduler(), f"echo '{PUSHED}'; exit 0")

    assert (never, by_hand("B"), by_hand("C")) == ([], ["pushed"], ["pushed"])


def test_what_could_not_be_sent_is_sent_later(nights: Nights, receiver: Any) -> None:
    """By a scheduler that has nothing else to do: after a minute, then after two, until it is taken."""
    receiver.answers = [(404, "")] * 3
    scheduler = nights.scheduler()
    nights.night(scheduler, "exit 1")
    counts = []
    for seconds in (0, 59, 1, 119, 1, 239, 1, 600):
        nights.sleep(seconds)
        scheduler.step()
        counts.append(len(receiver.got))

    assert counts == [1, 1, 2, 2, 3, 3, 4, 4]
    assert len({each["id"] for each in receiver.got}) == 1
    assert "T0K3N" not in " ".join(nights.said)


def test_a_receiver_that_is_down_holds_ticks_once(nights: Nights, receiver: Any) -> None:
    """However many pipelines it has notifications of: one of them is tried per ten seconds."""
    receiver.answers = [(404, "")] * 9
    notifier = ScheduleNotifier(nights.now, nights.said.append, nights.pace)
    others = [Nights(nights.root / name, nights.time, nights.pace) for name in ("a", "b")]
    ledgers = [nights.ledger, *(each.ledger for each in others)]
    record = TickRecord("sales", nights.schedule().timetable.first(1, nights.time)[0], "failed")
    for ledger in ledgers:
        notifier.ended(ledger, record)
    counts = [len(receiver.got)]
    for _ in range(3):
        nights.sleep(10)
        for ledger in ledgers:
            notifier.look(ledger)
        counts.append(len(receiver.got))

    assert counts == [1, 2, 3, 3]
    assert len({each["root"] for each in receiver.got}) == 3


def test_a_signal_while_a_receiver_is_started(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the scheduler between two steps, as at any other moment: its retrainings are stopped, too."""
    started = bounded._started

    def signalled(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return started(*arguments)

    monkeypatch.setattr(bounded, "_started", signalled)
    clock = SystemClock()
    record = TickRecord("sales", nights.schedule().timetable.first(1, nights.time)[0], "failed")
    with clock.signals():
        ScheduleNotifier(nights.now, nights.said.append, nights.pace).ended(nights.ledger, record)

    assert clock.stopped_by == signal.SIGTERM


def test_a_damaged_state_is_said_once(nights: Nights, capfd: Any) -> None:
    """However often the scheduler looks at it."""
    scheduler = nights.scheduler()
    nights.night(scheduler, "exit 1")
    (nights.root / ".penstock" / "notify" / "sales.json").write_text("{")
    for _ in range(3):
        scheduler.step()

    assert capfd.readouterr().err.count("earlier notifications, sent or not, are forgotten") == 1


def test_a_full_disk_repeats_nothing(
    tiny_disk: Path, at: At, frozen: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5: a scheduler remembers what it has sent, although it cannot be noted."""
    monkeypatch.setenv("PENSTOCK_NOTIFY_WEBHOOK", receiver.url)
    nights = Nights(tiny_disk, at("2026-03-08T12:00"), frozen.pace)
    receiver.answers = [(404, "")]
    scheduler = nights.scheduler()
    nights.night(scheduler, "exit 1")
    with (tiny_disk / "full").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"0" * 4096)
    counts = []
    for seconds in (61, 61, 61, 2 * 24 * 3600, 61):
        nights.sleep(seconds)
        scheduler.step()
        counts.append(len(receiver.got))

    assert counts == [2, 2, 2, 3, 3]
    assert [each["event"] for each in receiver.got[:3]] == ["failed", "failed", "late"]


def test_settings_that_are_not_valid_are_told(nights: Nights, receiver: Any, tmp_path: Path) -> None:
    """As `notify` of the same settings asks, or as the environment does."""
    file = tmp_path / "bad.toml"
    chosen = []
    for content in ('[tabular.train]\nepoch = 3\n[tabular.notify]\non = ["late"]\n', "[tabular", "tabular = 1"):
        file.write_text(content)
        words = (*nights.schedule("notify.timeout=3").arguments, "--settings", str(file))
        notify = config_of(PipelineSchedule(**{**vars(nights.schedule()), "arguments": words})).settings.notify
        chosen.append((notify.on[0], notify.timeout))

    assert chosen == [("late", 3.0), ("failed", 10.0), ("failed", 10.0)]
    assert receiver.got == []


def test_the_settings_file_of_the_scheduler_is_not_that_of_the_pipeline(
    nights: Nights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule has its own; one in the working folder of its retrainings counts, as it does for them."""
    (tmp_path / "penstock.toml").write_text("[tabular.notify]\ntimeout = 1\n")
    monkeypatch.chdir(tmp_path)
    before = config_of(nights.schedule()).settings.notify.timeout
    (nights.root / "penstock.toml").write_text("[tabular.notify]\ntimeout = 2\n")

    assert (before, config_of(nights.schedule()).settings.notify.timeout) == (10.0, 2.0)


@pytest.mark.parametrize("spaces", ["", "  "])
def test_a_schedule_stores_no_address(spaces: str, nights: Nights, tmp_path: Path, at: At) -> None:
    """D5: it shows its flags, so an address among them is rejected."""
    chosen = run_config.make("tabular", data=f"{tmp_path}/{{SPAN}}", root=str(nights.root))
    wish = add.ScheduleWish("0 3 * * *", None, "UTC", "skip", "last")
    with pytest.raises(SettingsError, match=r"--set notify\.webhook: a schedule stores its flags") as error:
        add.make(chosen, wish, {}, None, [f"notify.webhook{spaces}=https://host/T0K3N"], at("2026-03-09"))

    assert "T0K3N" not in str(error.value)


def test_trouble_of_notifications_stops_no_scheduler(nights: Nights, receiver: Any) -> None:
    """A schedule that was removed meanwhile, or a journal that is damaged, is a line of the scheduler."""
    notifier = ScheduleNotifier(nights.now, nights.said.append, nights.pace)
    record = TickRecord("gone", nights.schedule().timetable.first(1, nights.time)[0], "failed")
    notifier.ended(nights.ledger, record)
    (nights.ledger.file.parent / "runs" / "sales").mkdir(parents=True)
    (nights.ledger.file.parent / "runs" / "sales" / "A.json").write_text("{")
    os.utime(nights.ledger.file.parent / "runs" / "sales" / "A.json")
    nights.night(nights.scheduler(), "exit 1")

    assert nights.said[0] == "notifications: " + nights.said[0].removeprefix("notifications: ")
    assert any("A.json: the record of a run cannot be read" in line for line in nights.said)
    assert (nights.ledger.ticks("sales")[-1].state, receiver.got, nights.stopped_by) == ("failed", [], 0)
    assert signal.SIGKILL not in [child.returncode for child in nights.children]
