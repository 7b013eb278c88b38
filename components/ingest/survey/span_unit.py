"""What spans are counted in: numbers, days or hours. Each span has one place on a line of whole numbers.

number    7                7
day       2026-11-14       days since 1970-01-01, as in TFX
hour      2026-11-14T05    hours since 1970-01-01T00; every date has 24 of them, in any time zone
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Literal

Unit = Literal["number", "day", "hour"]

_EPOCH = date(1970, 1, 1)
_DAY_HOURS = 24
_HOUR = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2})", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
EXPECTED: dict[Unit, str] = {
    "number": "a number, such as 7",
    "day": "a date, such as 2026-11-14",
    "hour": "a date with an hour, such as 2026-11-14T05",
}


def parse(text: str, unit: Unit) -> int:
    """Returns the place of a span on its line; raises ValueError with the reason if the text names none."""
    if unit == "number" and text.isascii() and text.isdigit():
        return int(text)
    if unit == "day" and _DAY.fullmatch(text):
        return day(text)
    if unit == "hour" and (found := _HOUR.fullmatch(text)):
        if int(found[2]) >= _DAY_HOURS:
            raise ValueError(f"hour must be in 0..23, not {found[2]}")
        return day(found[1]) * _DAY_HOURS + int(found[2])
    raise ValueError(f"expected {EXPECTED[unit]}")


def day(text: str) -> int:
    """Returns the place of a day; raises ValueError if the calendar does not have it."""
    try:
        return (date.fromisoformat(text) - _EPOCH).days
    except ValueError as error:
        raise ValueError(f"no such date: {error}") from None


def text(place: int, unit: Unit) -> str:
    """Returns how people write a span, the inverse of `parse`."""
    if unit == "number":
        return str(place)
    days, hour = divmod(place, _DAY_HOURS) if unit == "hour" else (place, 0)
    written = (_EPOCH + timedelta(days=days)).isoformat()
    return f"{written}T{hour:02d}" if unit == "hour" else written


def earliest(unit: Unit) -> int:
    """Returns the first place of a line: 0, or the first of January of the year 1."""
    days = (date.min - _EPOCH).days
    return 0 if unit == "number" else days * _DAY_HOURS if unit == "hour" else days


def last_complete(now: datetime, unit: Unit) -> int:
    """Returns the last day or hour that is over at a time, in its own time zone."""
    today = (now.date() - _EPOCH).days
    return (today * _DAY_HOURS + now.hour if unit == "hour" else today) - 1


def listed(places: Sequence[int], unit: Unit) -> str:
    """Returns spans as text; three and more in a row as a range: `2026-11-03, 2026-11-05..2026-11-07`."""
    return ", ".join(_runs(sorted(places), unit))


def _runs(places: Sequence[int], unit: Unit) -> Iterable[str]:
    for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
        row = [place for _, place in run]
        if len(row) > 2:  # noqa: PLR2004 - two in a row are shorter as they are
            yield f"{text(row[0], unit)}..{text(row[-1], unit)}"
        else:
            yield from (text(place, unit) for place in row)
