"""Schedules, ledgers and times by hand."""

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.policy import TickRecord
from pipelines.schedule.schedule import PipelineSchedule
from pipelines.schedule.timetable import DueTick


@pytest.fixture
def at() -> Callable[[str], datetime]:
    """Returns an instant from its text, UTC."""
    return lambda text: datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.fixture
def nightly(tmp_path: Path, at: Callable[[str], datetime]) -> Callable[..., PipelineSchedule]:
    """Returns a schedule: three o'clock every night since 1 March 2026, in Berlin."""

    def make(**changed: Any) -> PipelineSchedule:
        fields = {
            "name": "sales", "task": "tabular", "arguments": ("--data", "d/{SPAN}"), "folder": str(tmp_path),
            "rule": "cron 0 3 * * *", "zone": "Europe/Berlin", "since": at("2026-03-01"),
        }  # fmt: skip
        return PipelineSchedule(**{**fields, **changed})

    return make


@pytest.fixture
def tick(at: Callable[[str], datetime]) -> Callable[..., TickRecord]:
    """Returns a tick of March 2026 in the ledger, which was due at two o'clock UTC."""

    def make(day: int, state: Any, **more: Any) -> TickRecord:
        local = datetime(2026, 3, day, 3)  # noqa: DTZ001 - the clock of the wall
        due = DueTick(local.isoformat(timespec="minutes"), at(f"2026-03-{day:02d}T02:00"), local)
        return TickRecord("sales", due, state, **more)

    return make


@pytest.fixture
def ledger(tmp_path: Path) -> ScheduleLedger:
    """An empty ledger."""
    return ScheduleLedger(tmp_path / ".penstock")
