"""What becomes of the ticks of a schedule: a pure function of schedule, ledger and time.

    ticks that are due, not in the ledger ─┬─ late: not decided within a minute ─► catch up none: missed
    ticks that wait: queued, interrupted ──┤
                                           └─ a run is going on ─► overlap skip: skipped
                                                                   overlap queue: queued
                                     catch up none, last: of all that are left only the newest, the others are missed
                                                    all: each, in order, one at a time

A tick that the ledger has is never decided again, so a clock that is set back repeats none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from pipelines.schedule.schedule import PipelineSchedule
from pipelines.schedule.timetable import DueTick

TickState = Literal[
    "queued", "running", "pushed", "up to date", "withdrawn", "not better", "gate stopped", "late", "skipped",
    "missed", "failed",
]  # fmt: skip
OPEN: tuple[TickState, ...] = ("queued", "running")
GRACE = timedelta(minutes=1)
LOOK_BACK = 1000  # ticks: older ones are not listed, not even as missed


@dataclass(frozen=True)
class TickRecord:
    """A tick in the ledger."""

    schedule: str
    tick: DueTick
    state: TickState
    reason: str = ""
    decided: datetime | None = None  # when this state was reached, UTC
    started: datetime | None = None
    ended: datetime | None = None
    exit_code: int | None = None
    starts: int = 0  # processes that were started for it
    run_id: str = ""
    owner: str = ""  # the scheduler that started it, see `processes.identity`
    process: str = ""  # the retraining


@dataclass(frozen=True)
class TickDecision:
    """What becomes of a tick now."""

    tick: DueTick
    state: TickState  # running: it is to be started
    reason: str


def decide(
    schedule: PipelineSchedule, ledger: Sequence[TickRecord], now: datetime, *, is_free: bool = True
) -> list[TickDecision]:
    """Returns what becomes of ticks that are due; nothing for those that stay as they are.

    Args:
        schedule: the schedule.
        ledger: its newest ticks, open ones included, in ascending order.
        now: the time, UTC.
        is_free: whether the scheduler may start a run now.
    """
    if schedule.paused:
        return []
    running = next((record.tick for record in ledger if record.state == "running"), None)
    queued = [record.tick for record in ledger if record.state == "queued"]
    new = due(schedule, ledger, now)
    decided = []
    if schedule.catch_up == "none":
        late = [tick for tick in new if now - tick.at > GRACE]
        decided += [TickDecision(tick, "missed", "no scheduler was running (--catch-up none)") for tick in late]
        new = [tick for tick in new if tick not in late]
    if running and schedule.overlap == "skip":
        reason = f"the run of tick {running.key} was still going on (--overlap skip)"
        decided += [TickDecision(tick, "skipped", reason) for tick in new]
        new = []
    waiting = sorted([*queued, *new], key=lambda tick: tick.at)
    if schedule.catch_up != "all" and waiting:
        reason = f"tick {waiting[-1].key} is newer (--catch-up {schedule.catch_up})"
        decided += [TickDecision(tick, "missed", reason) for tick in waiting[:-1]]
        waiting = waiting[-1:]
    if waiting and not running and is_free:
        decided.append(TickDecision(waiting.pop(0), "running", ""))
    reason = f"waits for the run of tick {running.key}" if running else "waits for another run"
    return decided + [TickDecision(tick, "queued", reason) for tick in waiting if tick not in queued]


def due(schedule: PipelineSchedule, ledger: Sequence[TickRecord], now: datetime) -> list[DueTick]:
    """Returns the ticks up to now that the ledger does not have, in order."""
    known = {record.tick.key for record in ledger}
    passed = [record.tick.at for record in ledger if record.tick.at <= now and not record.tick.is_by_hand]
    start = max([schedule.since, schedule.resumed or schedule.since, *passed])
    found = schedule.timetable.newest(LOOK_BACK, start, now) if start < now else []
    return [tick for tick in found if tick.key not in known]
