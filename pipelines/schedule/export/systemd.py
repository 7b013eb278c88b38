"""A service and a timer of systemd."""

from components.errors import GateStopped, Locked, NotBlessed, Skipped
from pipelines.schedule.cron import WEEKDAYS, CronFields
from pipelines.schedule.export.exported import ExportedFile, command, cron_fields, require_one_catch_up
from pipelines.schedule.schedule import PipelineSchedule

_GOOD = (NotBlessed.exit_code, Skipped.exit_code, Locked.exit_code)  # these need no person
_SERVICE = """\
[Unit]
Description=Retrain {name} with Penstock

[Service]
Type=oneshot
WorkingDirectory={folder}
ExecStart={command}
# not better, skipped, and a tick while another run goes on; gate stopped ({gate}) and late are failures
SuccessExitStatus={good}
# SIGTERM to the command alone: it stops its workers, after a checkpoint
KillMode=mixed
TimeoutStopSec=60
"""
_TIMER = """\
[Unit]
Description=When {name} is retrained

[Timer]
{when}
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def export(schedule: PipelineSchedule) -> list[ExportedFile]:
    """Returns the units of a schedule."""
    require_one_catch_up(schedule, "systemd")
    name = f"penstock-{schedule.name}"
    service = _SERVICE.format(
        name=schedule.name,
        folder=_specifiers(schedule.folder),
        command=" ".join(map(quoted, command(schedule))),
        good=" ".join(map(str, _GOOD)),
        gate=GateStopped.exit_code,
    )
    return [
        ExportedFile(f"{name}.service", service),
        ExportedFile(f"{name}.timer", _TIMER.format(name=schedule.name, when="\n".join(_when(schedule)))),
    ]


def quoted(word: str) -> str:
    """Returns a word of ExecStart; systemd would expand % and $ and read quotes and backslashes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_specifiers(escaped)}"'


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _when(schedule: PipelineSchedule) -> list[str]:
    fields = cron_fields(schedule)
    persistent = f"Persistent={'true' if schedule.catch_up == 'last' else 'false'}"
    if fields is None:
        seconds = int(schedule.timetable.rule.total_seconds())  # type: ignore[union-attr]
        return [f"OnActiveSec={seconds}", f"OnUnitActiveSec={seconds}"]
    return [*(f"OnCalendar={text} {schedule.zone}" for text in calendars(fields)), persistent]


def calendars(fields: CronFields) -> list[str]:
    """Returns the calendar events of a cron expression; with both kinds of days there are two, as either is enough."""
    days = _date(fields, fields.days)
    weekdays = ",".join(WEEKDAYS[day].capitalize() for day in fields.weekdays)
    time = f"{_listed(fields.hours, 24)}:{_listed(fields.minutes, 60)}:00"
    if not fields.any_day and not fields.any_weekday:
        return [f"{days} {time}", f"{weekdays} {_date(fields, tuple(range(1, 32)))} {time}"]
    return [" ".join(filter(None, ["" if len(fields.weekdays) == len(WEEKDAYS) else weekdays, days, time]))]


def _date(fields: CronFields, days: tuple[int, ...]) -> str:
    return f"*-{_listed(fields.months, 12)}-{_listed(days, 31)}"


def _listed(values: tuple[int, ...], count: int) -> str:
    return "*" if len(values) == count else ",".join(map(str, values))
