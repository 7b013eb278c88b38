"""Cron expressions, with the meaning that cron gives them.

    "0 3 * * 1-5" ─► fields: the values of each, checked ─► triggers of APScheduler, on the clock of the wall

APScheduler counts weekdays from Monday, where cron counts from Sunday (0 and 7), and requires that day of month and
day of week both match, where either is enough for cron. So fields are read here, and APScheduler is given their values.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from components.errors import SettingsError

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS = {name: n for n, name in enumerate(WEEKDAYS)}
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES, start=1)}
_RANGES: dict[str, tuple[int, int, dict[str, int]]] = {
    "minute": (0, 59, {}),
    "hour": (0, 23, {}),
    "day of month": (1, 31, {}),
    "month": (1, 12, _MONTHS),
    "day of week": (0, 7, _DAYS),
}
_SUNDAY = 7  # as well as 0
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?", re.ASCII)
_EXPECTED = "expected five fields, minute hour day-of-month month day-of-week, such as '0 3 * * *', or @daily"
_LONGEST = timedelta(days=366 * 8 + 1)  # 29 February may be eight years away
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class CronFields:
    """The values that each field of a cron expression allows; weekdays are counted from Sunday."""

    text: str  # five fields
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    any_day: bool  # the field of the day of month begins with *
    any_weekday: bool


def parse(expression: str) -> CronFields:
    """Returns the fields of a cron expression; raises SettingsError with the reason if it has another form."""
    text = _NICKNAMES.get(expression.strip().lower(), expression.strip())
    words = text.lower().split()
    if text.startswith("@") or len(words) != len(_RANGES):
        raise SettingsError(f"cron expression {expression!r}: {_EXPECTED}")
    try:
        minutes, hours, days, months, weekdays = map(_values, _RANGES, words)
    except ValueError as reason:
        raise SettingsError(f"cron expression {expression!r}: {reason}") from None
    weekdays = tuple(sorted({day % _SUNDAY for day in weekdays}))
    fields = CronFields(
        " ".join(words), minutes, hours, days, months, weekdays, words[2].startswith("*"), words[4].startswith("*")
    )
    if next(local_times(fields, datetime(2024, 1, 1)), None) is None:  # noqa: DTZ001 - the clock of the wall
        raise SettingsError(f"cron expression {expression!r}: no such date; expected one that the calendar has")
    return fields


def local_times(fields: CronFields, after: datetime) -> Iterator[datetime]:
    """Yields the times after a time on the clock of the wall, without a time zone and so without daylight saving."""
    triggers = _triggers(fields)
    now = after.replace(tzinfo=timezone.utc) + _MICROSECOND
    while True:
        for each in triggers:
            each.end_date = now + _LONGEST
        found = [time for each in triggers if (time := each.get_next_fire_time(None, now))]
        if not found:
            return
        yield min(found).replace(tzinfo=None)
        now = min(found) + _MICROSECOND


@functools.lru_cache(maxsize=64)  # APScheduler takes milliseconds to make one
def _triggers(fields: CronFields) -> list[Any]:
    """Returns triggers that fire at all times of a cron expression: with both kinds of days, either is enough."""
    days = {"day": _written(fields.days, "day of month")}
    weekdays = {"day_of_week": ",".join(WEEKDAYS[day] for day in fields.weekdays)}
    if not fields.any_day and not fields.any_weekday:
        return [_trigger(fields, **days), _trigger(fields, **weekdays)]
    if len(fields.weekdays) == len(WEEKDAYS):
        return [_trigger(fields, **days)]
    return [_trigger(fields, **days, **weekdays)]


def _trigger(fields: CronFields, **more: str) -> Any:
    from apscheduler.triggers.cron import CronTrigger

    return CronTrigger(
        month=_written(fields.months, "month"), hour=_written(fields.hours, "hour"),
        minute=_written(fields.minutes, "minute"), second="0", timezone=timezone.utc, **more,
    )  # fmt: skip


def _written(values: tuple[int, ...], name: str) -> str:
    low, high, _ = _RANGES[name]
    return "*" if len(values) == high - low + 1 else ",".join(map(str, values))


def _values(name: str, field: str) -> tuple[int, ...]:
    """Returns the values of a field in ascending order; raises ValueError with the reason if there are none."""
    return tuple(sorted({value for part in field.split(",") for value in _part(name, part)}))


def _part(name: str, part: str) -> range:
    low, high, names = _RANGES[name]
    found = _PART.fullmatch(part)
    if not found:
        raise ValueError(f"{name} {part!r}: expected *, a value, a range such as 1-5, or steps such as */15")
    first, last, step = found.groups()
    if first == "*" and last is None:
        start, end = low, min(high, _SUNDAY - 1) if names is _DAYS else high
    elif first == "*" or (step and last is None):
        raise ValueError(f"{name} {part!r}: expected steps of * or of a range, such as */15 or 0-30/15")
    else:
        start = _number(name, first)
        end = _number(name, last) if last else start
        if names is _DAYS and last in ("sun", "0") and start:  # fri-sun, and 5-0 as some crons allow
            end = _SUNDAY
    if start > end:
        raise ValueError(f"{name} {part!r}: the range ends before it begins")
    if step and not 1 <= int(step) <= high:
        raise ValueError(f"{name} {part!r}: expected a step of 1 to {high}")
    return range(start, end + 1, int(step or 1))


def _number(name: str, text: str) -> int:
    low, high, names = _RANGES[name]
    if text in names:
        return names[text]
    if text.isdigit() and low <= int(text) <= high:
        return int(text)
    known = f", or {', '.join(names)}" if names else ""
    raise ValueError(f"{name} {text!r}: expected {low} to {high}{known}")
