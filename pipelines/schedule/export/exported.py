"""What all exports need: the command of a schedule, and files to write."""

import sys
from dataclasses import dataclass
from pathlib import Path

from components.errors import SettingsError
from pipelines.schedule.cron import CronFields
from pipelines.schedule.schedule import PipelineSchedule


@dataclass(frozen=True)
class ExportedFile:
    """A file of an export."""

    name: str
    content: str


def command(schedule: PipelineSchedule, program: str = "", *more: str) -> list[str]:
    """Returns the command of a tick: a retraining of the newest span that is due.

    Args:
        schedule: the schedule.
        program: path of `penstock`; empty: the one of this environment.
        more: further flags.
    """
    wait = ["--wait"] if schedule.overlap == "queue" else []
    words = ["retrain", "--timezone", schedule.zone, *wait, *more, schedule.task, *schedule.arguments]
    for word in words:
        if "\n" in word or "\0" in word:
            raise SettingsError(f"{schedule.name}: {word!r} has a line break; expected one that a unit file can hold")
    return [program or str(Path(sys.executable).with_name("penstock")), *words]


def cron_fields(schedule: PipelineSchedule) -> CronFields | None:
    """Returns the fields of its cron expression; None if it is an interval."""
    rule = schedule.timetable.rule
    return rule if isinstance(rule, CronFields) else None


def require_one_catch_up(schedule: PipelineSchedule, scheduler: str) -> None:
    """Rejects what a scheduler cannot do: start each tick that was missed."""
    if schedule.catch_up == "all":
        raise SettingsError(
            f"{schedule.name}: {scheduler} cannot catch up all ticks; use `penstock schedule serve` or airflow, or add "
            "the schedule with --catch-up last"
        )
