"""When the ticks of a schedule are due.

    cron    times of the clock on the wall ─► instants     a tick is named by its local time: 2026-11-14T03:00
    every   anchor, anchor + interval, …                   a tick is named by its instant:    2026-11-14T03:00Z

A local time that daylight saving skips is due when the clock is set forward; one that comes twice is due once, the
first time. So each local time is one tick.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from components.errors import SettingsError
from pipelines.schedule import cron
from pipelines.schedule.cron import CronFields

_EVERY = re.compile(r"([1-9]\d{0,5})([mhd])", re.ASCII)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_BY_HAND = "now-"
_STEP = timedelta(hours=1)  # of the search for the newest ticks; doubled while there are too few


@dataclass(frozen=True)
class DueTick:
    """A time at which a schedule wants a retraining."""

    key: str  # unique within its schedule: local time, or instant of an interval
    at: datetime  # when it is due, UTC
    local: datetime  # on the clock of the schedule's time zone, without it

    @property
    def is_by_hand(self) -> bool:
        """Whether a person asked for it, by `penstock schedule run-now`."""
        return self.key.startswith(_BY_HAND)


@dataclass(frozen=True)
class Timetable:
    """All ticks of a schedule."""

    rule: CronFields | timedelta
    zone: ZoneInfo
    anchor: datetime  # what intervals are counted from, UTC

    def after(self, instant: datetime) -> Iterator[DueTick]:
        """Yields the ticks that are due after an instant, in order."""
        return self._of_interval(instant) if isinstance(self.rule, timedelta) else self._of_cron(instant)

    def by_hand(self, now: datetime) -> DueTick:
        """Returns a tick of this moment."""
        return DueTick(f"{_BY_HAND}{now:%Y-%m-%dT%H:%M:%S.%fZ}", now, now.astimezone(self.zone).replace(tzinfo=None))

    def first(self, count: int, instant: datetime) -> list[DueTick]:
        """Returns the next ticks after an instant."""
        return list(islice(self.after(instant), count))

    def newest(self, count: int, start: datetime, end: datetime) -> list[DueTick]:
        """Returns the newest ticks that are due after `start` and not after `end`, in ascending order.

        The search begins at the end: a clock that was years behind must not cost a check of every minute of them.
        """
        step = _STEP
        while True:
            begin = max(start, end - step)
            found = list(takewhile(lambda tick: tick.at <= end, self.after(begin)))
            if len(found) >= count or begin == start:
                return found[-count:]
            step *= 2

    def _of_cron(self, instant: datetime) -> Iterator[DueTick]:
        # Instants ascend with local times, so no earlier local time is due after this instant.
        start = instant.astimezone(self.zone).replace(tzinfo=None)
        for local in cron.local_times(self.rule, start):  # type: ignore[arg-type]
            at = _instant(local, self.zone)
            if at > instant:
                yield DueTick(local.isoformat(timespec="minutes"), at, local)

    def _of_interval(self, instant: datetime) -> Iterator[DueTick]:
        step: timedelta = self.rule  # type: ignore[assignment]
        at = self.anchor + step * max((instant - self.anchor) // step + 1, 1)
        while True:
            local = at.astimezone(self.zone).replace(tzinfo=None)
            yield DueTick(f"{at:%Y-%m-%dT%H:%M:%SZ}", at, local)
            at += step


def interval(text: str) -> timedelta:
    """Returns an interval such as 30m, 6h or 2d; raises SettingsError for any other text."""
    if not (found := _EVERY.fullmatch(text)):
        raise SettingsError(f"--every {text}: expected a number of minutes, hours or days, such as 30m, 6h or 2d")
    return int(found[1]) * _UNITS[found[2]]


def time_zone(name: str) -> ZoneInfo:
    """Returns a time zone; raises SettingsError if no such zone is known."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise SettingsError(f"--timezone {name}: unknown; expected a name such as UTC or Europe/Berlin") from None


def _instant(local: datetime, zone: ZoneInfo) -> datetime:
    """Returns when a local time is first: one that the clock skips is due when it is set forward."""
    at = local.replace(tzinfo=zone).astimezone(timezone.utc)
    if at.astimezone(zone).replace(tzinfo=None) == local:
        return at
    # In a gap, fold=0 reads the time with the offset from before it, and fold=1 with the one from after it.
    low, high = local.replace(tzinfo=zone, fold=1).astimezone(timezone.utc), at
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):  # when the offset changes
        middle = low + (high - low) / 2
        low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
    return high.replace(microsecond=0)
