"""A root with two pipelines, written by the code that writes roots: calls of runs, live pointer, schedule, reports."""

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest

from components.serving import live
from components.serving.live import LiveModel, LivePointer, Move
from pipelines.journal.calls import Call
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.policy import TickDecision
from pipelines.schedule.schedule import PipelineSchedule
from pipelines.ui import overview
from pipelines.ui.overview import Overview

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
NOW = datetime(2026, 11, 19, 12, tzinfo=timezone.utc)


def call(day: int, **changes: Any) -> Call:
    """Returns the call of a run that pushed a model on a day of November."""
    started = NOW.replace(day=day, hour=3)
    made = Call(
        run=f"202611{day:02}-030000-abcd",
        number=1,
        started=started.isoformat(),
        pid=1,
        host="host",
        pipeline="customers",
        task="tabular",
        data="data/{YYYY}-{MM}-{DD}/*.csv",
        settings={"ingest": {"spans": f"2026-11-{day - 1:02},2026-11-{day:02}"}, "train": {"epochs": day}},
        state="succeeded",
        ended=(started + timedelta(seconds=40 + day)).isoformat(),
        exit_code=0,
        reason=f"blessed and pushed as version {day}",
        nodes=({"id": "Trainer", "state": "ran", "seconds": 20.0 + day, "reason": "", "records": 300},),
        records={"train": 200 + day, "test": 40},
        metrics={"accuracy": 0.8 + day / 1000},
        drift=day / 10,
        version=str(day),
        live=day,
    )
    return replace(made, **changes)


def write_calls(root: Path, *calls: Call) -> None:
    """Writes the calls of runs as `pipelines.journal` does."""
    for each in calls:
        folder = root / ".penstock" / "runs" / each.pipeline
        folder.mkdir(parents=True, exist_ok=True)
        made = replace(each, root=each.root or str(root), serving=str(root / "serving"))
        (folder / f"{each.run}.json").write_bytes(orjson.dumps([asdict(made)]))


def write_live(root: Path, *versions: int, reason: str = "blessed by the Evaluator") -> None:
    """Writes a live pointer with one push per version."""
    moves = tuple(
        Move(
            "push", f"{root}/serving/{version}", NOW.isoformat(), "ana", reason, LiveModel(version, f"{root}/{version}")
        )
        for version in versions
    )
    live.write(root, lambda _: LivePointer("customers", moves))


def write_schedule(root: Path, states: list[Any], reason: str = "") -> None:
    """Writes a daily schedule, and how its last ticks ended."""
    since = NOW - timedelta(days=len(states) + 1)
    schedule = PipelineSchedule("customers", "tabular", (), str(root), "cron 0 3 * * *", "UTC", since)
    ledger = ScheduleLedger(root / ".penstock")
    ledger.put(schedule, new=True)
    for tick, state in zip(schedule.timetable.newest(len(states), since, NOW), states, strict=True):
        ledger.decide(
            "customers",
            NOW,
            "",
            lambda *_, tick=tick, state=state: [TickDecision(tick, state, reason)],
        )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of roots: a pipeline with three runs, a report, a live model and a schedule, and one that failed."""
    home = tmp_path / "runs" / "customers"
    write_calls(home, call(16), call(17, state="gate stopped", exit_code=5, version="", drift=1.7), call(18))
    (home / "logs").mkdir()
    for report in (home / "report.html", home / "logs" / "20261118-030000-abcd.html"):
        report.write_text("<!DOCTYPE html><title>report</title>")
    write_live(home, 16, 18)
    write_schedule(home, ["pushed", "gate stopped", "pushed"])
    other = tmp_path / "runs" / "flowers"
    write_calls(other, call(15, pipeline="flowers", task="image", state="failed", exit_code=1, reason="no disk"))
    return tmp_path / "runs"


@pytest.fixture
def read(root: Path) -> Callable[[], Overview]:
    """Reads the folder at noon of 19 November."""
    return lambda: overview.read(root, NOW)
