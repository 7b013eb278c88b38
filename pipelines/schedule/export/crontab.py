"""A line of a crontab."""

import shlex
from datetime import timedelta

from components.errors import SettingsError
from pipelines.schedule.export.exported import ExportedFile, command, cron_fields, cron_text, require_one_catch_up
from pipelines.schedule.schedule import PipelineSchedule

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def export(schedule: PipelineSchedule) -> list[ExportedFile]:
    """Returns the line of a schedule.

    Cron catches nothing up; the next tick takes the newest span that is due, and the window has the days before it.
    """
    require_one_catch_up(schedule, "cron")
    fields = cron_fields(schedule)
    expression = cron_text(schedule, fields, has_star_steps=True) if fields else expression_of_interval(schedule)
    call = f"cd {shlex.quote(schedule.folder)} && {shlex.join(command(schedule))}"
    lines = [
        f"# Retrain {schedule.name} with Penstock. CRON_TZ applies to all lines below: keep these at the end.",
        "# Some crons ignore CRON_TZ (Debian's): set the machine's zone there.",
        f"CRON_TZ={schedule.zone}",
        f"{expression} {call}".replace("%", "\\%"),  # cron would end the line at a %
    ]
    return [ExportedFile(f"penstock-{schedule.name}.cron", "\n".join([*lines, ""]))]


def expression_of_interval(schedule: PipelineSchedule) -> str:
    """Returns the cron expression of an interval; raises SettingsError if it does not divide an hour or a day."""
    every: timedelta = schedule.timetable.rule  # type: ignore[assignment]
    minutes, hours = every // timedelta(minutes=1), every // _HOUR
    if every < _HOUR and not _HOUR % every:
        return f"*/{minutes} * * * *"
    if every % _HOUR == timedelta(0) and not _DAY % every:
        return "0 0 * * *" if hours == 24 else f"0 */{hours} * * *"  # noqa: PLR2004 - hours of a day
    raise SettingsError(
        f"{schedule.name}: cron cannot start every {schedule.rule.removeprefix('every ')}; expected an interval that "
        "divides an hour or a day, or a schedule with --cron"
    )
