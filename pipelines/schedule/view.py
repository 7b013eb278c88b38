"""What others may know of schedules: read only, and cheap enough for a page that is loaded often.

`status`, the page and alerts ask `read`; they never open the ledger themselves.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pipelines.journal import calls
from pipelines.schedule import processes
from pipelines.schedule.ledger import FILE, ScheduleLedger
from pipelines.schedule.policy import TickRecord, due
from pipelines.schedule.schedule import PipelineSchedule
from pipelines.schedule.timetable import DueTick

_LATE = timedelta(minutes=2)  # a scheduler decides within seconds


@dataclass(frozen=True)
class ScheduleView:
    """A schedule, what comes next and what was last."""

    schedule: PipelineSchedule
    next: tuple[DueTick, ...]  # none while it is paused
    last: tuple[TickRecord, ...]  # newest last, with the running one
    undecided: tuple[DueTick, ...]  # due for two minutes, and no scheduler has handled them, nor has a run begun

    @property
    def running(self) -> TickRecord | None:
        """The tick whose run goes on."""
        return next((each for each in self.last if each.state == "running"), None)

    @property
    def is_running(self) -> bool:
        """Whether the process of the running tick is alive."""
        return self.running is not None and processes.is_alive(self.running.process)

    @property
    def is_late(self) -> bool:
        """Whether ticks are due that no scheduler handles."""
        return bool(self.undecided)


def read(notes: Path, now: datetime, *, ticks: int = 14, coming: int = 5) -> list[ScheduleView]:
    """Returns the schedules of a root, by name.

    Args:
        notes: `RunConfig.notes`, the folder `.penstock` of the state folder.
        now: the time, UTC.
        ticks: how many past ticks of each schedule.
        coming: how many future ones.
    """
    ledger = ScheduleLedger(notes)
    return [_view(ledger, schedule, now, ticks, coming) for schedule in ledger.schedules()]


def folders(places: Iterable[Path]) -> list[Path]:
    """Returns the folders with a ledger of schedules: in each place, and in each folder directly in it, but links."""
    roots = (root for place in places for root in (place, *(each for each in place.glob("*") if not each.is_symlink())))
    notes = {root / ".penstock" for root in roots}
    # Path.exists raises in a folder that this user may not read, such as lost+found.
    return sorted(each for each in notes if os.path.exists(each / FILE))  # noqa: PTH110


def _view(ledger: ScheduleLedger, schedule: PipelineSchedule, now: datetime, ticks: int, coming: int) -> ScheduleView:
    known = ledger.ticks(schedule.name, until=now)
    undecided = [tick for tick in due(schedule, known, now) if now - tick.at > _LATE and not schedule.paused]
    if undecided and (end := _end_of_work(ledger.file.parent, schedule.name, now)):
        undecided = [tick for tick in undecided if tick.at > end]
    following = schedule.timetable.first(coming, now) if coming and not schedule.paused else []
    return ScheduleView(schedule, tuple(following), tuple(known[-ticks:] if ticks else ()), tuple(undecided))


def _end_of_work(notes: Path, pipeline: str, now: datetime) -> datetime | None:
    """Returns until when a run worked on a pipeline: systemd, cron or Airflow start runs without a ledger of ticks."""
    folder = calls.folder_of(notes, pipeline)
    newest = next(calls.newest_first(folder), None)
    if newest is None:
        return None
    last = newest[-1]
    if not last.ended and calls.is_held(folder / f"{last.run}.json"):
        return now
    return datetime.fromisoformat(last.ended or last.started)
