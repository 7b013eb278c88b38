"""What all exports need: the command of a schedule, and files to write."""

import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from components.errors import SettingsError
from pipelines.schedule.cron import WEEKDAYS, CronFields
from pipelines.schedule.schedule import PipelineSchedule

_DAYS = 31
_NOT_IN_A_LINE = ("Cc", "Cs", "Zl", "Zp")  # control characters, bytes that are no UTF-8, line separators


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
    program = program or str(Path(sys.executable).with_name("penstock"))
    for word in (program, schedule.folder, *words):
        if any(unicodedata.category(each) in _NOT_IN_A_LINE for each in word):
            raise SettingsError(
                f"{schedule.name}: {word!a} has a line break or another control character; expected text that a line "
                "of a unit file, a crontab or a manifest can hold"
            )
    return [program, *words]


def cron_fields(schedule: PipelineSchedule) -> CronFields | None:
    """Returns the fields of its cron expression; None if it is an interval."""
    rule = schedule.timetable.rule
    return rule if isinstance(rule, CronFields) else None


def cron_text(schedule: PipelineSchedule, fields: CronFields, *, has_star_steps: bool) -> str:
    """Returns the cron expression in words that every cron reads as we do; raises SettingsError if there are none.

    Sunday is 0, and weekdays are numbers: 7, sun at the end of a range, and the full range 1-31 differ between crons.

    Args:
        schedule: the schedule, for the message.
        fields: its expression.
        has_star_steps: whether that cron takes a step such as */10 for a star where it combines both kinds of days.
    """
    minute, hour, day, month, weekday = fields.text.split()
    has_all_days, has_all_weekdays = len(fields.days) == _DAYS, len(fields.weekdays) == len(WEEKDAYS)
    is_either = not fields.any_day and not fields.any_weekday
    if has_all_days and (fields.any_day or is_either):
        day = "*"
    if has_all_weekdays and (fields.any_weekday or is_either):
        weekday = "*"
    if is_either and "*" in (day, weekday):
        day = weekday = "*"
    if weekday != "*" and (day == "*" or not fields.any_weekday):
        weekday = ",".join(map(str, fields.weekdays))
    if "*" not in (day, weekday) and not is_either and not has_star_steps:
        raise SettingsError(
            f"{schedule.name}: the days of '{fields.text}' must match both fields, and this scheduler takes either; "
            "expected * in one of them, or lists of values"
        )
    return f"{minute} {hour} {day} {month} {weekday}"


def require_one_catch_up(schedule: PipelineSchedule, scheduler: str) -> None:
    """Rejects what a scheduler cannot do: start each tick that was missed."""
    if schedule.catch_up == "all":
        raise SettingsError(
            f"{schedule.name}: {scheduler} cannot catch up all ticks; use `penstock schedule serve` or airflow, or add "
            "the schedule with --catch-up last"
        )
