"""Dates as numbers: days since 1970, with the time of day as a fraction.

Formats such as `2026-11-16`, `2026-11-16 08:30` and `2026-11-16T08:30:15.5Z` are parsed; fractions of seconds and time
zones are ignored. Anything else becomes NaN.
"""

from typing import Any

import tensorflow as tf

from components.records.roles import DATE_PATTERN

_PARTS = ("year", "month", "day", "hour", "minute", "second")
_SECONDS = {"hour": 3600.0, "minute": 60.0, "second": 1.0}
_DAY = 86400.0


def days(texts: Any) -> Any:
    """Returns float32 days [n]; NaN for strings that are not dates."""
    is_date = tf.strings.regex_full_match(texts, DATE_PATTERN)
    plain = tf.where(is_date, texts, "1970-01-01")
    part = {name: _part(plain, place) for place, name in enumerate(_PARTS, start=1)}
    whole = _civil(part["year"], part["month"], part["day"])
    seconds = sum(tf.cast(part[name], tf.float32) * factor for name, factor in _SECONDS.items())
    return tf.where(is_date & _is_real(part), tf.cast(whole, tf.float32) + seconds / _DAY, float("nan"))


def _is_real(part: dict[str, Any]) -> Any:
    """Whether the day and the time exist: 2026-02-29 is not a date."""
    year, month = part["year"], part["month"]
    of_next = _civil(tf.where(month == 12, year + 1, year), tf.where(month == 12, 1, month + 1), 1)  # noqa: PLR2004
    length = of_next - _civil(year, month, 1)
    is_day = (month >= 1) & (month <= 12) & (part["day"] >= 1) & (part["day"] <= length)  # noqa: PLR2004
    return is_day & (part["hour"] < 24) & (part["minute"] < 60) & (part["second"] < 60)  # noqa: PLR2004


def _part(texts: Any, place: int) -> Any:
    found = tf.strings.regex_replace(texts, DATE_PATTERN, rf"\{place}", replace_global=False)
    return tf.strings.to_number(tf.where(tf.equal(found, ""), "0", found), tf.int32)


def _civil(year: Any, month: Any, day: Any) -> Any:
    """Returns days since 1970-01-01 in the Gregorian calendar; years start in March, so that leap days end them."""
    year = tf.where(month <= 2, year - 1, year)  # noqa: PLR2004
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + tf.where(month > 2, -3, 9)) + 2) // 5 + day - 1  # noqa: PLR2004
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
