"""Notifies for the scheduler, which sees what no retraining can notify: that it was killed, or that none was started.

A retraining notifies at its own end; this module notifies of its tick only if it left no call in the journal of runs.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from components.errors import Cancelled, PenstockError
from components.settings import tree
from pipelines import config as run_config
from pipelines.config import SETTINGS_FILE, RunConfig
from pipelines.notify import after_call, receivers
from pipelines.notify.deliver import Pace, deliver
from pipelines.notify.rules import Kind, Occurrence
from pipelines.notify.state import StateFile
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.policy import TickRecord, TickState
from pipelines.schedule.schedule import PipelineSchedule

_KINDS: dict[TickState, Kind] = {
    "failed": "failed",
    "gate stopped": "failed",
    "late": "late",
    "not better": "not better",
    "pushed": "well",
    "up to date": "well",
    "withdrawn": "well",
}  # missed and skipped are what the policies ask for
_FIRST, _LONGEST = timedelta(minutes=1), timedelta(hours=1)  # between two attempts to empty an outbox
_REST = timedelta(seconds=10)  # in which nothing is sent: receivers that hang must not hold the ticks of all pipelines


@dataclass(frozen=True)
class _NextSend:
    """When an outbox is sent again."""

    at: datetime
    after: timedelta


class ScheduleNotifier:
    """What `Scheduler` calls; nothing here raises."""

    def __init__(self, now: Callable[[], datetime], say: Callable[[str], None], pace: Pace | None = None) -> None:
        """Takes the clock of the scheduler, UTC, and what prints a line."""
        self._now, self._say, self._pace = now, say, pace or Pace()
        self._next_sends: dict[Path, _NextSend] = {}
        self._files: dict[Path, StateFile] = {}  # kept: on a full disk, they know what was sent
        self._rests_until = now()

    def ended(self, ledger: ScheduleLedger, record: TickRecord) -> None:
        """Notifies of a tick that has reached its last state."""
        with _handed_on(), after_call.guarded(self._say):
            config = config_of(ledger.find(record.schedule))
            self._notify(config, self._file(config.notes, config.name), record)

    def look(self, ledger: ScheduleLedger) -> None:
        """Notifies of a tick that no scheduler has handled, and sends again what could not be sent."""
        for schedule in ledger.schedules():
            with _handed_on(), after_call.guarded(self._say):
                self._look(ledger, schedule)

    def _look(self, ledger: ScheduleLedger, schedule: PipelineSchedule) -> None:
        file, now = self._file(ledger.file.parent, schedule.name), self._now()
        planned = self._next_sends.get(file.path)
        is_due = now >= self._rests_until and bool(file.read().outbox) and (planned is None or now >= planned.at)
        late = after_call.late_tick(ledger.file.parent, schedule.name, now)
        if is_due or (late and f"tick {late.key}" not in file.read().seen):
            self._notify(config_of(schedule), file, None)

    def _file(self, notes: Path, pipeline: str) -> StateFile:
        made = StateFile(notes, pipeline, self._now)
        return self._files.setdefault(made.path, made)

    def _notify(self, config: RunConfig, file: StateFile, record: TickRecord | None) -> None:
        found, now = receivers.of(config), self._now()
        if not found:
            return
        more = _of_tick(config, record, now) if record else []
        after_call.note(config, file, found, now, more)
        if now < self._rests_until:
            return
        problems = deliver(file, found, config.settings.notify.timeout, self._pace)
        for problem in problems:
            self._say(f"{config.name}: {problem}")
        before = self._next_sends.pop(file.path, None)
        if problems:
            wait = min(before.after * 2, _LONGEST) if before else _FIRST
            self._next_sends[file.path] = _NextSend(now + wait, wait)
            self._rests_until = self._now() + _REST


@contextmanager
def _handed_on() -> Iterator[None]:
    """Gives the scheduler a signal that came while a receiver was started, which raises Cancelled (`bounded.run`)."""
    try:
        yield
    except Cancelled as error:
        signal.raise_signal(error.signum)


def config_of(schedule: PipelineSchedule) -> RunConfig:
    """Returns the configuration of a scheduled pipeline; of settings that are not valid, only `notify`, or none."""
    given = dict(pairwise(schedule.arguments))
    flags = [value for flag, value in pairwise(schedule.arguments) if flag == "--set"]
    own = Path(schedule.folder) / SETTINGS_FILE
    named = given.get("--settings") or (str(own) if own.exists() else os.devnull)

    def made(settings_file: str, chosen: list[str]) -> RunConfig:
        return run_config.make(
            schedule.task, data=".", root=given["--root"], state=given.get("--state"), name=schedule.name,
            settings_file=settings_file, flags=chosen,
        )  # fmt: skip

    try:
        return made(named, flags)
    except PenstockError:
        plain = made(os.devnull, [])
    try:
        mine: Any = tree.read_file(Path(named)).get(schedule.task, {})
        chosen = [tree.parse_flag(flag) for flag in flags if flag.startswith("notify.")]
        return replace(plain, settings=tree.load([{"notify": mine.get("notify", {})}, *chosen]))
    except (PenstockError, AttributeError):
        return plain


def _of_tick(config: RunConfig, record: TickRecord, now: datetime) -> list[Occurrence]:
    kind = _KINDS.get(record.state)
    if kind is None:
        return []
    known = after_call.about(
        config, now, record.state, record.reason, run=record.run_id, tick=record.tick.key, exit_code=record.exit_code
    )
    key = record.run_id or f"tick {record.tick.key}"
    return [Occurrence(kind, key, known, has_pushed=record.state == "pushed")]
