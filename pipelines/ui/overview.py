"""What the page shows, read once: runs, live model and schedules of every pipeline in a folder.

    find pipelines ─► per pipeline: history.runs + live pointer + schedules ─► PipelineView ─► pages

All of it comes from the read-only APIs of `watch` and `schedule`. A pipeline that cannot be read is shown with the
reason, and the others as usual.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from components.errors import PenstockError
from components.redact import redact
from components.serving import live
from components.serving.live import LivePointer
from pipelines.schedule import view as schedules
from pipelines.schedule.view import ScheduleView
from pipelines.watch import history, pipelines, status
from pipelines.watch.history import NodeRun, Run
from pipelines.watch.pipelines import KnownPipeline

RUNS = 100  # newest runs of a pipeline
TICKS = 14
_NO_WORK = ("nothing due", "late", "skipped")  # states of runs that have no result


@dataclass(frozen=True)
class NodeProgress:
    """How far a running node is, by what it says itself, and by how long it usually takes."""

    node: NodeRun
    usual: float | None  # seconds; None if it never ran before
    done: int  # nodes that have ended
    place: str = ""  # epoch 2/5, or the number of records; empty if it has said nothing yet

    @property
    def part(self) -> float | None:
        """The part of the usual time that has passed; at most 0.99, because it still runs."""
        return min(self.node.seconds / self.usual, 0.99) if self.usual else None


@dataclass(frozen=True)
class PipelineView:
    """One pipeline on the page."""

    key: str  # of its page, as part of a URL
    pipeline: KnownPipeline
    runs: tuple[Run, ...] = ()  # newest first
    live: LivePointer | None = None
    schedules: tuple[ScheduleView, ...] = ()
    place: str = ""  # of the running node
    problem: str = ""  # why it could not be read

    @property
    def last(self) -> Run | None:
        """The newest run."""
        return self.runs[0] if self.runs else None

    @property
    def results(self) -> tuple[Run, ...]:
        """The runs that did something, newest first."""
        return tuple(run for run in self.runs if run.state not in _NO_WORK)

    @property
    def progress(self) -> NodeProgress | None:
        """How far the running node is."""
        run = self.last
        if run is None or run.state != "running" or (node := run.node) is None:
            return None
        usual = [
            each.seconds for run in self.runs[1:] for each in run.nodes if (each.node, each.state) == (node.node, "ran")
        ]
        done = sum(each.state != "running" for each in run.nodes)
        return NodeProgress(node, median(usual) if usual else None, done, self.place)


@dataclass(frozen=True)
class Overview:
    """All pipelines of a folder, at one moment."""

    folder: Path
    time: datetime  # UTC
    pipelines: tuple[PipelineView, ...]


def read(folder: Path, now: datetime) -> Overview:
    """Returns all pipelines whose root is this folder, or in it."""
    return Overview(folder, now, tuple(_views(folder, now)))


def key_of(pipeline: KnownPipeline) -> str:
    """Returns a name for the page of a pipeline: readable, and another one for each state folder and name."""
    digest = hashlib.sha256(f"{pipeline.state.absolute()}\0{pipeline.name}".encode(errors="surrogateescape"))
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', pipeline.name)[:40].strip('-') or 'pipeline'}-{digest.hexdigest()[:8]}"


def _views(folder: Path, now: datetime) -> Iterator[PipelineView]:
    """Yields the pipelines of a folder; of a folder in which a root is damaged, root by root."""
    try:
        yield from (_view(each, now) for each in pipelines.find(folder))
    except PenstockError:
        inside = sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
        if not inside or (folder / "metadata.db").exists():
            raise
        for root in inside:
            yield from _of_root(root, now)


def _of_root(root: Path, now: datetime) -> list[PipelineView]:
    """Returns the pipelines of a root; of a damaged one, the reason."""
    try:
        return [_view(each, now) for each in pipelines.find(root)]
    except PenstockError as error:
        damaged = KnownPipeline(root.name, "", root, root, root / "serving", root / "metadata.db")
        return [PipelineView(key_of(damaged), damaged, problem=_said(error))]


def _view(pipeline: KnownPipeline, now: datetime) -> PipelineView:
    key = key_of(pipeline)
    try:
        runs = tuple(history.runs(pipeline, RUNS))
        return PipelineView(
            key,
            pipeline,
            runs,
            # A root on an object store is not asked: the page must not wait for a network.
            live.read(pipeline.root) if isinstance(pipeline.root, Path) else None,
            _schedules(pipeline, now),
            status.place_of(status.progress_of(pipeline, runs[0] if runs else None)),
        )
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one pipeline, the others are shown
        return PipelineView(key, pipeline, problem=_said(error))


def _said(error: Exception) -> str:
    return redact(str(error)) or type(error).__name__


def _schedules(pipeline: KnownPipeline, now: datetime) -> tuple[ScheduleView, ...]:
    found: Sequence[ScheduleView] = schedules.read(pipeline.notes, now, ticks=TICKS)
    return tuple(each for each in found if each.schedule.name == pipeline.name)
