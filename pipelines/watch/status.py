"""The state of a pipeline at a glance: `of(pipeline)`, for `penstock status` and the page."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from components.errors import Late, PenstockError
from components.serving import live
from pipelines.journal import events
from pipelines.schedule import view
from pipelines.schedule.view import ScheduleView
from pipelines.watch import history, pipelines
from pipelines.watch.history import Run, RunState
from pipelines.watch.pipelines import KnownPipeline

Health = Literal["well", "late", "failing"]
EXIT_CODES: dict[Health, int] = {"well": 0, "late": Late.exit_code, "failing": PenstockError.exit_code}
_BAD: tuple[RunState, ...] = ("failed", "killed", "gate stopped")
_RUNS = 14


@dataclass(frozen=True)
class LiveVersion:
    """The version that is served, as far as it is known."""

    version: int
    since: str = ""  # ISO 8601, UTC; empty if only the last run says it
    kind: str = ""  # push, promote, rollback


@dataclass(frozen=True)
class PipelineStatus:
    """A pipeline now."""

    pipeline: KnownPipeline
    health: Health
    live: LiveVersion | None
    running: Run | None
    progress: dict[str, Any] | None  # the last line about it in the log of events
    last: Run | None  # that has ended
    decided: Run | None  # that decides the health: neither cancelled nor left out; the last one if there is none
    last_success: str  # when the last run that did what it should ended; empty: not among those that were read
    runs: tuple[Run, ...]  # newest first
    schedule: ScheduleView | None


def of(pipeline: KnownPipeline, now: datetime, newest: int = _RUNS) -> PipelineStatus:
    """Returns the state of a pipeline.

    Args:
        pipeline: which one.
        now: the time, UTC.
        newest: how many runs to read.
    """
    found = history.runs(pipeline, newest)
    running = next((run for run in found if run.state == "running"), None)
    last = next((run for run in found if run.state != "running"), None)
    decided = next((run for run in found if run.state not in ("running", "cancelled", "skipped")), None)
    views = [each for each in view.read(pipeline.notes, now) if each.schedule.name == pipeline.name]
    schedule = views[0] if views else None
    return PipelineStatus(
        pipeline=pipeline,
        health=_health(decided, running, schedule),
        live=_live(pipeline, found),
        running=running,
        progress=progress_of(pipeline, running),
        last=last,
        decided=decided or last,
        last_success=next((run.ended for run in found if run.state in ("succeeded", "nothing due")), ""),
        runs=tuple(found),
        schedule=schedule,
    )


def of_all(folder: Path, now: datetime | None = None) -> list[PipelineStatus]:
    """Returns the state of all pipelines below a folder."""
    return [of(pipeline, now or datetime.now(timezone.utc)) for pipeline in pipelines.find(folder)]


def exit_code(found: list[PipelineStatus]) -> int:
    """Returns 0 if all pipelines are well, 9 if one is late, 1 if the last run of one failed."""
    return min((EXIT_CODES[each.health] for each in found if each.health != "well"), default=0)


def _health(decided: Run | None, running: Run | None, schedule: ScheduleView | None) -> Health:
    """Decides by the newest run that has ended and counts; a late one is made up for by a run that goes on."""
    state = decided.state if decided else "succeeded"
    if state in _BAD:
        return "failing"
    is_late = (state == "late" and running is None) or (schedule is not None and schedule.is_late)
    return "late" if is_late else "well"


def _live(pipeline: KnownPipeline, runs: list[Run]) -> LiveVersion | None:
    """Returns the live version by the pointer; on an object store by the last run, without a request."""
    if isinstance(pipeline.root, Path) and isinstance(pipeline.serving, Path):
        pointer = live.current(pipeline.root, pipeline.serving, pipeline.name)
        return LiveVersion(pointer.live.version, pointer.live.time, pointer.live.kind) if pointer else None
    known = next((run.live for run in runs if run.live is not None), None)
    return LiveVersion(known) if known is not None else None


def progress_of(pipeline: KnownPipeline, running: Run | None) -> dict[str, Any] | None:
    """Returns the newest progress of the node that runs, from the log of events; None if it has written none yet."""
    if running is None or running.node is None:
        return None
    found = events.last(pipeline.logs / f"{running.id}.jsonl", "progress")
    return found if found and found.get("node") == running.node.node else None


def place_of(progress: Mapping[str, Any] | None) -> str:
    """Returns how far a node is, as text: `epoch 2/5`, `1,000 of 5,000 records`; empty if it is not known."""
    made = progress or {}
    return str(made.get("place") or (f"{made['done']:,} of {made['total']:,} records" if made.get("total") else ""))
