"""Metrics of a pipeline as a file in the text format of Prometheus, for node exporter's textfile collector.

The file is written at the end of each run, and when a person moves the live pointer, whole or not at all, by
prometheus_client's own writer. It is made from the journal and the live pointer alone: a run with nothing due stays as
fast as it is.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from components import progress
from components.errors import PenstockError, SettingsError
from components.serving import live
from pipelines.config import RunConfig, local_folder
from pipelines.journal import calls
from pipelines.journal.calls import Call
from pipelines.schedule import view
from pipelines.watch import pipelines
from pipelines.watch.pipelines import KnownPipeline

FILE = "metrics.prom"
_LOOKED_AT = 2000  # runs: a week of one every five minutes
_NAMES = ("last", "success", "records", "metrics", "disk", "live")  # values of runs
_SUCCESS = ("succeeded", "nothing due")
_READABLE = 0o644  # node exporter is another user


def file_of(config: RunConfig) -> Path:
    """Returns where the metrics of a pipeline are written."""
    chosen = config.settings.watch.metrics
    if not chosen:
        return config.state / FILE
    place = local_folder("watch.metrics", chosen)
    return place if place.suffix == ".prom" else place / f"penstock-{config.name}.prom"


@contextmanager
def updated(config: RunConfig) -> Iterator[None]:
    """Writes the metrics of a pipeline at the end of the block, however it ends; that it cannot is a warning."""
    require_folder(config)
    try:
        yield
    finally:
        update(config)


def require_folder(config: RunConfig) -> None:
    """Raises SettingsError if the folder that `watch.metrics` names does not exist."""
    folder = file_of(config).parent
    if config.settings.watch.metrics and not folder.is_dir():
        raise SettingsError(f"watch.metrics = {config.settings.watch.metrics}: {folder} is no folder; create it")


def update(config: RunConfig, version: int | None = None) -> None:
    """Writes the metrics of a pipeline; that it cannot is a warning: the command has its result, and its exit code.

    Args:
        config: of the pipeline.
        version: the live version, if it is newer than the last run.
    """
    file = file_of(config)
    try:
        write(pipelines.of(config), file, version)
    except (OSError, PenstockError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        progress.warn(f"metrics {file}: cannot be written: {reason}")


def write(pipeline: KnownPipeline, file: Path, version: int | None = None) -> None:
    """Writes the metrics of a pipeline."""
    if not pipeline.calls.is_dir():
        return  # no run has begun
    write_to_textfile(str(file), _gauges(pipeline, datetime.now(timezone.utc), version).registry)
    os.chmod(file, _READABLE)  # noqa: PTH101 - as the writer, which takes a text


class _Gauges:
    """The metrics of one pipeline; a metric without a value is left out."""

    def __init__(self, pipeline: str) -> None:
        self.registry = CollectorRegistry()
        self._pipeline, self._known = pipeline, dict[str, Gauge]()

    def set(self, name: str, text: str, value: float | None, **labels: str) -> None:
        if value is None:
            return
        named = {"pipeline": self._pipeline, **labels}
        if name not in self._known:
            self._known[name] = Gauge(f"penstock_{name}", text, list(named), registry=self.registry)
        self._known[name].labels(**named).set(value)


def _gauges(pipeline: KnownPipeline, now: datetime, version: int | None) -> _Gauges:
    made = _Gauges(pipeline.name)
    known = _newest_values(pipeline)
    if version is not None:
        known["live"] = version
    _of_runs(made, known)
    _of_model(made, pipeline, known)
    made.set("disk_used_bytes", "Size of the state folder after the last run that ran a node.", known.get("disk"))
    made.set("disk_free_bytes", "Free space on the disk of the state folder.", shutil.disk_usage(pipeline.state).free)
    _of_schedule(made, pipeline, now)
    return made


def _newest_values(pipeline: KnownPipeline) -> dict[str, Any]:
    """Returns each value of the newest run that has it; reads no older runs than it needs."""
    known: dict[str, Any] = {}
    for found in islice(calls.newest_first(pipeline.calls), _LOOKED_AT):
        values = _values(found[-1])
        known = {**{name: value for name, value in values.items() if value not in (None, {})}, **known}
        if values.keys() - {"live"} <= known.keys():  # a root on this machine has a live pointer
            break
    return known


def _values(call: Call) -> dict[str, Any]:
    if not call.ended:
        return dict.fromkeys(_NAMES)
    ended = _seconds(call.ended) if call.state in _SUCCESS else None
    return {"last": call, "success": ended, **{name: getattr(call, name) for name in _NAMES[2:]}}


def _of_runs(made: _Gauges, known: Mapping[str, Any]) -> None:
    if last := known.get("last"):
        made.set("last_run_timestamp_seconds", "End of the last run.", _seconds(last.ended))
        made.set(
            "last_run_duration_seconds", "Duration of the last run.", _seconds(last.ended) - _seconds(last.started)
        )
        made.set("last_run_exit_code", "Exit code of the last run.", last.exit_code)
    made.set("last_success_timestamp_seconds", "End of the last run that succeeded.", known.get("success"))


def _of_model(made: _Gauges, pipeline: KnownPipeline, known: Mapping[str, Any]) -> None:
    for split, count in known.get("records", {}).items():
        made.set("records", "Records by split, of the last run that knows them.", count, split=split)
    for metric, value in known.get("metrics", {}).items():
        made.set("model_metric", "Metrics of the last model that was evaluated.", value, metric=metric)
    made.set("live_version", "Version of the model that is live.", _live(pipeline, known.get("live")))


def _of_schedule(made: _Gauges, pipeline: KnownPipeline, now: datetime) -> None:
    for each in view.read(pipeline.notes, now, coming=1):
        if each.schedule.name == pipeline.name:
            upcoming = each.next[0].at.timestamp() if each.next else None
            made.set("next_tick_timestamp_seconds", "When the schedule is due next.", upcoming)
            made.set("late_ticks", "Ticks that are due and that no scheduler has handled.", len(each.undecided))


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _live(pipeline: KnownPipeline, last: int | None) -> int | None:
    """Returns the live version: by the pointer, or on an object store by the last call that knew it."""
    if isinstance(pipeline.root, Path) and isinstance(pipeline.serving, Path):
        pointer = live.current(pipeline.root, pipeline.serving, pipeline.name)
        return pointer.live.version if pointer else None
    return last
