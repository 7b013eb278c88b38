"""What each part of a pipeline's page shows: views in, plain values out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from pipelines.report.formatting import clock, duration, fit, number
from pipelines.ui.overview import PipelineView
from pipelines.ui.trend import Trend, TrendPoint, trend
from pipelines.watch.history import Run

STRIP = 14
# The symbol and colour of each state of a run or of a tick.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("succeeded", "pushed"), "ran"),
    **dict.fromkeys(("nothing due", "up to date", "withdrawn"), "cached"),
    **dict.fromkeys(("not blessed", "not better", "gate stopped", "late", "cancelled"), "warning"),
    **dict.fromkeys(("failed", "killed"), "failed"),
    **dict.fromkeys(("skipped", "missed", "queued"), "skipped"),
    "running": "running",
}
_METRICS = ("accuracy", "r2")  # that decide, by kind of label


@dataclass(frozen=True)
class Result:
    """One square of a strip."""

    kind: str
    text: str


def kind(state: str) -> str:
    """Returns the symbol of a state."""
    return KINDS.get(state, "unknown")


def run_strip(view: PipelineView) -> list[Result]:
    """Returns the last runs, oldest first."""
    return [
        Result(kind(run.state), f"{clock(run.started)}: {run.state}{_because(run.reason)}")
        for run in reversed(view.runs[:STRIP])
    ]


def tick_strip(view: PipelineView) -> list[Result]:
    """Returns the last ticks of the schedules, oldest first."""
    ticks = sorted((tick for each in view.schedules for tick in each.last), key=lambda tick: tick.tick.at)
    return [
        Result(kind(tick.state), f"{clock(tick.tick.at.isoformat())}: {tick.state}{_because(tick.reason)}")
        for tick in ticks[-STRIP:]
    ]


def next_tick(view: PipelineView) -> datetime | None:
    """Returns when the next tick is due, UTC."""
    return min((tick.at for each in view.schedules for tick in each.next), default=None)


def metric(run: Run | None) -> tuple[str, float] | None:
    """Returns the metric that decides about the model of a run."""
    return next(((name, run.metrics[name]) for name in _METRICS if name in run.metrics), None) if run else None


def last_metric(view: PipelineView) -> tuple[str, float] | None:
    """Returns the metric of the newest run that has one."""
    return next((found for run in view.runs if (found := metric(run))), None)


def live_metric(view: PipelineView) -> tuple[str, float] | None:
    """Returns the metric of the live model, by a run that pushed it or found it pushed; of an unknown one, the newest.

    The model of the last run may not be live: it was not blessed, or a person rolled it back.
    """
    if view.live is None:
        return last_metric(view)
    model = view.live.live.model.artifact
    versions = {str(move.version) for move in view.live.moves if move.model.artifact == model}
    return next((found for run in view.runs if run.version in versions and (found := metric(run))), None)


def trends(view: PipelineView) -> list[Trend]:
    """Returns metric, records, drift and duration over the runs that did something."""
    runs = view.results[::-1]
    name = (last_metric(view) or ("",))[0]
    lines = (
        (name, [(run, run.metrics.get(name)) for run in runs], None),
        ("records", [(run, float(sum(run.records.values())) or None) for run in runs], None),
        ("drift / threshold", [(run, run.drift) for run in runs], 1.0),
        ("duration in seconds", [(run, run.seconds if run.ended else None) for run in runs], None),
    )
    charts = (trend(title, list(_points(values)), limit) for title, values, limit in lines if title)
    return [chart for chart in charts if chart]


def _points(values: list[tuple[Run, float | None]]) -> Iterator[TrendPoint]:
    for run, value in values:
        if value is not None:
            yield TrendPoint(clock(run.started), float(value), kind(run.state))


def comparable(run: Run) -> dict[str, str]:
    """Returns all that is known of a run as names and short texts, to compare it with another."""
    found: dict[str, Any] = {
        "state": run.state,
        "reason": run.reason,
        "started": clock(run.started),
        "duration": duration(run.seconds),
        "exit code": run.exit_code,
        "data": run.data,
        "version": run.version,
        "live at its end": run.live,
        "drift / threshold": run.drift,
        **{f"records: {split}": count for split, count in run.records.items()},
        **{f"metric: {name}": value for name, value in run.metrics.items()},
        **{f"setting: {name}": value for name, value in _flat(run.settings)},
        **{f"node {node.node}": f"{node.state}, {duration(node.seconds)}" for node in run.nodes},
    }
    return {fit(name, 80): _text(value) for name, value in list(found.items())[:400]}


def newest_span(run: Run) -> str:
    """Returns the newest of the spans that a retraining was given; other runs have none."""
    chosen = str(run.settings.get("ingest", {}).get("spans") or "")
    return chosen.rpartition(",")[2].rpartition("..")[2].strip()


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for section, values in settings.items():
        for name, value in values.items() if isinstance(values, Mapping) else [("", values)]:
            yield f"{section}.{name}", value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return fit(str(value))
    if isinstance(value, int | float):
        return number(value)
    return fit(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())


def _because(reason: str) -> str:
    return f", {fit(reason, 160)}" if reason else ""
