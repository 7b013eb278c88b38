"""The window of a tick: the spans that should be there, counted on the calendar, and those that are.

    tick 2026-11-14, last 7 ─► 2026-11-08 … 2026-11-14 ─┬─ there:   read, each at its highest version
                                                        └─ missing: the tick's own span is late, an older one is a gap

A tick is the span that a retraining is for. Its window never depends on what has arrived: an older window is not taken
for it.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from components.errors import BadInput, Late, SettingsError
from components.ingest.survey import span_unit, spans
from components.ingest.survey.span_unit import Unit
from components.ingest.survey.spans import Glob, Span

_LAST = re.compile(r"last ([1-9]\d*)", re.ASCII)
_LONGEST = 100_000  # spans of 'last N': hours of eleven years
_EXPECTED = "expected 'last N', growing, or a range such as 3-9 or 2026-11-01..2026-11-14"


@dataclass(frozen=True)
class Window:
    """The spans of a tick."""

    data: str
    tick: int
    unit: Unit
    first: int  # span that should be there
    spans: tuple[Span, ...]  # that are there, in ascending order

    @property
    def is_late(self) -> bool:
        """Whether the tick's own span is missing."""
        return not self.spans or self.spans[-1].number != self.tick

    @property
    def gaps(self) -> list[int]:
        """Older spans that are missing."""
        there = {span.number for span in self.spans}
        return [place for place in range(self.first, self.tick) if place not in there]

    @property
    def tick_text(self) -> str:
        """How people write the tick."""
        return span_unit.text(self.tick, self.unit)

    @property
    def text(self) -> str:
        """First and last span of the window."""
        return (
            self.tick_text if self.first == self.tick else f"{span_unit.text(self.first, self.unit)}..{self.tick_text}"
        )

    @property
    def gaps_text(self) -> str:
        """The missing older spans, as people write them."""
        return span_unit.listed(self.gaps, self.unit)

    @property
    def selection(self) -> str:
        """The spans that are there, as a value of `ingest.spans`."""
        return ",".join(span.text for span in self.spans)


def resolve(data: str, rule: str, tick: str | None, glob: Glob, now: datetime) -> Window:
    """Returns the window of a tick.

    Args:
        data: a pattern with {SPAN}, or {YYYY}, {MM} and {DD}.
        rule: the setting `ingest.window`.
        tick: a span; None: the newest that is due. That is the last day or hour that is over, or, as no calendar says
            when a number is due, the highest number that is there.
        glob: lists the paths that match a pattern with * and ?.
        now: the time, in the time zone of the dates.
    """
    unit = spans.unit_of(data)
    if unit is None:
        raise SettingsError(
            f"{data}: no spans; expected a pattern with {{SPAN}}, or {{YYYY}}, {{MM}} and {{DD}}, such as "
            "'logs/{YYYY}-{MM}-{DD}/*.csv'"
        )
    bounds = _bounds(rule, unit)
    there = spans.with_files(data, glob)
    numbers = {number for number, _ in there}
    newest = spans.everything(data, glob)
    found = {number: span for number, span in newest.items() if number in numbers}
    place = _given(tick, unit) if tick is not None else _newest_due(data, unit, bounds, found, now)
    first = _first(rule, place, unit, bounds, found)
    in_window = [found[number] for number in sorted(found) if first <= number <= place]
    # A new version of a span is there before its files: until then the span is missing, and no older version is taken.
    return Window(data, place, unit, first, tuple(s for s in in_window if (s.number, s.version) in there))


def check(window: Window, gaps: str) -> None:
    """Raises Late if the tick's own span is missing, or more older ones than the setting `ingest.gaps` allows."""
    if window.is_late:
        where = spans.filled(window.data, window.tick, window.unit)
        raise Late(
            f"span {window.tick_text} is not there: no file {where}; provide it, or let the retraining wait for it "
            "(ingest.late=wait) or leave it out (ingest.late=skip)"
        )
    allowed = int(gaps.removeprefix("allow ")) if gaps != "fail" else 0
    if len(window.gaps) > allowed:
        raise Late(
            f"span {window.tick_text}: {len(window.gaps)} older spans of its window {window.text} are missing, "
            f"{allowed} allowed (ingest.gaps = {gaps}): {window.gaps_text}; provide them, or allow them "
            f"(--set ingest.gaps='allow {len(window.gaps)}')"
        )


def _bounds(rule: str, unit: Unit) -> tuple[int, int] | None:
    """Returns first and last span of a fixed window; None for one that moves with the tick."""
    if moving := _LAST.fullmatch(rule):
        if len(moving[1]) > len(str(_LONGEST)) or int(moving[1]) > _LONGEST:
            raise SettingsError(f"setting ingest.window: expected 'last N' with N up to {_LONGEST:,} (got {rule!r})")
        return None
    if rule == "growing":
        return None
    try:
        bounds = spans.range_of(rule, unit)
    except ValueError as reason:
        raise SettingsError(f"setting ingest.window: {reason} (got {rule!r})") from None
    if bounds is None:
        raise SettingsError(f"setting ingest.window: {_EXPECTED} (got {rule!r})")
    if bounds[0] > bounds[1]:
        raise SettingsError(f"setting ingest.window: the first span of the range is after its last (got {rule!r})")
    return bounds


def _given(tick: str, unit: Unit) -> int:
    try:
        return span_unit.parse(tick, unit)
    except ValueError as reason:
        raise SettingsError(f"--span {tick}: {reason}") from None


def _newest_due(data: str, unit: Unit, bounds: tuple[int, int] | None, found: dict[int, Span], now: datetime) -> int:
    if unit != "number":
        due = span_unit.last_complete(now, unit)
    elif found:
        due = max(found)
    else:
        raise BadInput(f"{data}: found no span; expected at least one, or the number of the one that is due (--span)")
    return min(due, bounds[1]) if bounds else due


def _first(rule: str, place: int, unit: Unit, bounds: tuple[int, int] | None, found: dict[int, Span]) -> int:
    """Returns the first span of the window of the span `place`."""
    if bounds:
        if not bounds[0] <= place <= bounds[1]:
            raise SettingsError(f"span {span_unit.text(place, unit)} is outside of ingest.window = {rule}")
        return bounds[0]
    if moving := _LAST.fullmatch(rule):
        return max(place - int(moving[1]) + 1, span_unit.earliest(unit))
    return min((number for number in found if number <= place), default=place)
