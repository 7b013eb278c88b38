"""One schedule: which pipeline, when, and what becomes of ticks that cannot run when they are due."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from components.errors import SettingsError
from components.settings.tree import Settings
from pipelines import config
from pipelines.schedule import cron
from pipelines.schedule.timetable import Timetable, interval, time_zone

Overlap = Literal["skip", "queue"]
CatchUp = Literal["none", "last", "all"]
LONGEST_INTERVAL = timedelta(days=366)


@dataclass(frozen=True)
class PipelineSchedule:
    """When a pipeline is retrained."""

    name: str  # of the pipeline
    task: str
    arguments: tuple[str, ...]  # of `penstock retrain`, after the task
    folder: str  # working folder of the command
    rule: str  # "cron 0 3 * * *" or "every 6h"
    zone: str
    since: datetime  # what intervals are counted from; ticks before it are none of this schedule's, UTC
    overlap: Overlap = "skip"
    catch_up: CatchUp = "last"
    paused: bool = False
    resumed: datetime | None = None  # ticks before it were not wanted, UTC

    @property
    def timetable(self) -> Timetable:
        """All its ticks."""
        kind, _, text = self.rule.partition(" ")
        return Timetable(cron.parse(text) if kind == "cron" else interval(text), time_zone(self.zone), self.since)

    @property
    def settings(self) -> Settings:
        """The settings that its flags and its settings file give the pipeline."""
        given = dict(zip(self.arguments, self.arguments[1:], strict=False))
        flags = [value for flag, value in zip(self.arguments, self.arguments[1:], strict=False) if flag == "--set"]
        chosen = config.make(
            self.task, data=".", root=given["--root"], state=given.get("--state"), name=self.name,
            settings_file=given.get("--settings"), flags=flags,
        )  # fmt: skip
        return chosen.settings

    def fields(self) -> dict[str, Any]:
        """Returns what `of_fields` makes this schedule from, as JSON can hold it."""
        times = {"since": self.since.isoformat(), "resumed": self.resumed.isoformat() if self.resumed else None}
        return {**asdict(self), **times}


def of_fields(fields: Mapping[str, Any]) -> PipelineSchedule:
    """Returns the schedule that `fields` came from."""
    times = {name: datetime.fromisoformat(fields[name]) for name in ("since", "resumed") if fields[name]}
    return PipelineSchedule(**{**fields, **times, "arguments": tuple(fields["arguments"])})


def rule_of(expression: str | None, every: str | None) -> str:
    """Returns the rule of a cron expression or of an interval; raises SettingsError if it is not exactly one."""
    if expression is not None and every is None:
        return f"cron {cron.parse(expression).text}"
    if expression is not None or every is None:
        raise SettingsError("expected either --cron, such as --cron '0 3 * * *', or --every, such as --every 6h")
    if interval(every) > LONGEST_INTERVAL:
        raise SettingsError(f"--every {every}: expected at most {LONGEST_INTERVAL.days}d")
    return f"every {every}"


def policy(flag: str, value: str, kind: Any) -> Any:
    """Returns a policy's value; raises SettingsError if it is none of its kind."""
    if value not in get_args(kind):
        raise SettingsError(f"{flag} {value}: expected {' or '.join(get_args(kind))}")
    return value
