"""Data in spans: for example one folder or file per day, each of which may be corrected by a later version.

    logs/{SPAN}/v{VERSION}/*.csv     ─► paths there ─► (span 3, version 2), (span 4, version 1) ─► logs/3/v2/*.csv …
    logs/{YYYY}-{MM}-{DD}/{HH}.csv   ─► paths there ─► 2026-11-14T05, 2026-11-14T06      ─► logs/2026-11-14/05.csv …

A span is a number that is never reused, a date, or a date with an hour; of its versions only the highest counts.
`{SPAN:3}` matches exactly three digits. A pattern without these fields is one span without a number.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from components.errors import BadInput, SettingsError
from components.ingest.survey import span_unit
from components.ingest.survey.span_unit import Unit

Glob = Callable[[str], Iterable[str]]

_FIELD = re.compile(r"\{(?:(SPAN|VERSION)(?::([1-9]))?|(YYYY|MM|DD|HH))\}")
_NAMES = re.compile(r"\{(SPAN|VERSION|YYYY|MM|DD|HH)")
_NAME = re.compile(r"s(\d{5,})(T\d{2})?", re.ASCII)
_ITEM = r"\d+|\d{4}-\d{2}-\d{2}(?:T\d{2})?"
_RANGE = re.compile(rf"(?P<first>{_ITEM})\.\.(?P<final>{_ITEM})|(?P<low>\d+)-(?P<high>\d+)", re.ASCII)
_SELECTION = re.compile(
    rf"all|latest|last (?P<last>[1-9]\d*)|{_RANGE.pattern}|(?P<each>(?:{_ITEM})(?:,(?:{_ITEM}))*)", re.ASCII
)
EXPECTED = "expected all, latest, 'last N', a range such as 3-7 or 2026-11-01..2026-11-14, or spans separated by commas"
_SHOWN = 5  # spans that a message names


@dataclass(frozen=True)
class Span:
    """One span of the data, and where it is."""

    data: str  # the pattern with its fields filled in
    number: int | None = None  # place on the line of its unit
    version: int | None = None
    unit: Unit = "number"

    @property
    def text(self) -> str:
        """How people write it: 7, 2026-11-14 or 2026-11-14T05; empty for data without spans."""
        return "" if self.number is None else span_unit.text(self.number, self.unit)

    @property
    def name(self) -> str:
        """Prefix of the shard names of this span; empty for data without spans."""
        if self.number is None:
            return ""
        return f"s{self.number:05d}" if self.unit == "number" else f"s{self.text.replace('-', '')}"


def find(data: str, selection: str, glob: Glob) -> tuple[Span, ...]:
    """Returns the selected spans in ascending order, each at its highest version.

    Args:
        data: a path or pattern, possibly with {SPAN}, or {YYYY}, {MM}, {DD} and {HH}, and {VERSION}.
        selection: which spans; see `EXPECTED`.
        glob: lists the paths that match a pattern with * and ?.
    """
    unit = unit_of(data)
    check_selection(selection, unit)
    if unit is None:
        return (Span(data),)
    newest = everything(data, glob)
    selected = _select(sorted(newest), selection, unit)
    if missing := [number for number in selected if number not in newest]:
        raise BadInput(f"{data}: no span {span_unit.listed(missing, unit)}, which ingest.spans names; {_found(newest)}")
    if not selected:
        raise BadInput(f"{data}: 0 examples: no span for ingest.spans = {selection}; {_found(newest)}")
    return tuple(newest[number] for number in selected)


def everything(data: str, glob: Glob) -> dict[int, Span]:
    """Returns every span of a pattern by its number, at its highest version."""
    head = _head(data)
    matcher = _matcher(head)
    found = [_span(data, match) for path in sorted(glob(as_pattern(head))) if (match := matcher.fullmatch(path))]
    newest: dict[int, Span] = {}
    for span in sorted(found, key=lambda span: span.version or 0, reverse=True):  # stable: the first path of equal ones
        newest.setdefault(span.number or 0, span)
    return newest


def with_files(data: str, glob: Glob) -> set[tuple[int | None, int | None]]:
    """Returns number and version of every span that a file is there of: folders are there before their files."""
    head = _head(data)
    matcher, depth = _matcher(head), head.count("/") + 1
    found = {"/".join(path.split("/")[:depth]) for path in glob(as_pattern(data))}
    spans = [_span(data, match) for path in found if (match := matcher.fullmatch(path))]
    return {(span.number, span.version) for span in spans}


def place_of(name: str, unit: Unit) -> int | None:
    """Returns the place of a span by its `Span.name`; None if it is not one in this unit."""
    found = _NAME.fullmatch(name)
    if not found:
        return None
    digits, hour = found[1], found[2] or ""
    try:
        return span_unit.parse(digits if unit == "number" else f"{digits[:4]}-{digits[4:6]}-{digits[6:]}{hour}", unit)
    except ValueError:
        return None


def as_pattern(data: str) -> str:
    """Returns the pattern of all spans in all versions."""
    return _FIELD.sub("*", data)


def filled(data: str, number: int, unit: Unit) -> str:
    """Returns where a span would be: the pattern with its fields filled in, and * for its version."""
    written = span_unit.text(number, unit)
    parts = {"YYYY": written[:4], "MM": written[5:7], "DD": written[8:10], "HH": written[11:], "VERSION": "*"}
    return _FIELD.sub(lambda field: parts.get(field[1] or field[3]) or written.zfill(int(field[2] or 0)), data)


def unit_of(data: str) -> Unit | None:
    """Returns what the spans of a pattern are counted in, None without spans; rejects fields that are not valid."""
    kinds = [found[1] or found[3] for found in _FIELD.finditer(data)]
    dates = {"YYYY", "MM", "DD", "HH"} & {*kinds}
    if _NAMES.search(_FIELD.sub("", data)):
        raise SettingsError(
            f"{data}: expected {{SPAN}} or {{SPAN:3}}, with 1 to 9 digits, the same for {{VERSION}}, or {{YYYY}}, "
            "{MM}, {DD}, {HH}"
        )
    if repeated := sorted(kind for kind in {*kinds} if kinds.count(kind) > 1):
        raise SettingsError(f"{data}: {{{repeated[0]}}} occurs {kinds.count(repeated[0])} times, expected once")
    if dates and "SPAN" in kinds:
        raise SettingsError(f"{data}: {{SPAN}} and a date; expected one of them")
    if dates and not dates >= {"YYYY", "MM", "DD"}:
        raise SettingsError(f"{data}: a date is {{YYYY}}, {{MM}} and {{DD}}, possibly with {{HH}}")
    if not dates and "SPAN" not in kinds:
        if "VERSION" in kinds:
            raise SettingsError(f"{data}: {{VERSION}} without {{SPAN}} or a date; a version belongs to a span")
        return None
    return "number" if not dates else "hour" if "HH" in dates else "day"


def check_selection(selection: str, unit: Unit | None) -> None:
    """Rejects a selection of spans that cannot be parsed, or is not in the unit of the data."""
    found = _SELECTION.fullmatch(selection)
    if not found:
        raise SettingsError(f"setting ingest.spans: {EXPECTED} (got {selection!r})")
    if unit is not None:
        try:
            _check_bounds(range_of(selection, unit))
            [span_unit.parse(each, unit) for each in (found["each"] or "").split(",") if each]
        except ValueError as reason:
            raise SettingsError(f"setting ingest.spans: {reason} (got {selection!r})") from None


def range_of(text: str, unit: Unit) -> tuple[int, int] | None:
    """Returns first and last span of a range; None if the text is none; raises ValueError if a span is not valid."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    first, final = (
        span_unit.parse(each, unit) for each in (found["first"] or found["low"], found["final"] or found["high"])
    )
    return first, final


def _check_bounds(bounds: tuple[int, int] | None) -> None:
    if bounds and bounds[0] > bounds[1]:
        raise ValueError("the first span of the range is after its last")


def _head(data: str) -> str:
    """Returns the pattern up to the path segment with the last field; everything below belongs to the span."""
    last = [found.end() for found in _FIELD.finditer(data)][-1]
    slash = data.find("/", last)
    return data if slash < 0 else data[:slash]


def _matcher(head: str) -> re.Pattern[str]:
    pattern, at = "", 0
    for found in _FIELD.finditer(head):
        kind = found[1] or found[3]
        width = found[2] or (None if found[1] else len(kind))
        digits = rf"\d{{{width}}}" if width else r"\d+"
        pattern += _as_regex(head[at : found.start()]) + f"(?P<{kind}>{digits})"
        at = found.end()
    return re.compile(pattern + _as_regex(head[at:]), re.ASCII)


def _as_regex(pattern: str) -> str:
    """Returns a shell pattern as a regular expression."""
    return re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


def _span(data: str, found: re.Match[str]) -> Span:
    filled_in = _FIELD.sub(lambda field: found[field[1] or field[3]], data)
    fields = found.groupdict()
    version = None if fields.get("VERSION") is None else int(fields["VERSION"])
    if "SPAN" in fields:
        return Span(filled_in, int(fields["SPAN"]), version)
    written = f"{fields['YYYY']}-{fields['MM']}-{fields['DD']}"
    unit: Unit = "hour" if "HH" in fields else "day"
    try:
        number = span_unit.parse(f"{written}T{fields['HH']}" if "HH" in fields else written, unit)
    except ValueError as reason:
        raise BadInput(f"{found[0]}: {reason}; rename it, or move it out of the data") from None
    return Span(filled_in, number, version, unit)


def _found(spans: dict[int, Span]) -> str:
    return (
        f"found spans {', '.join(spans[number].text for number in sorted(spans)[-_SHOWN:])}"
        if spans
        else "found no span"
    )


def _select(numbers: Sequence[int], selection: str, unit: Unit) -> list[int]:
    """Returns the selected numbers; those of a list are returned even if they are not among the numbers."""
    found = _SELECTION.fullmatch(selection)
    if not found or selection == "all":
        return list(numbers)
    if found["each"]:
        return sorted({span_unit.parse(each, unit) for each in found["each"].split(",")})
    if bounds := range_of(selection, unit):
        return [number for number in numbers if bounds[0] <= number <= bounds[1]]
    return list(numbers[-int(found["last"] or 1) :])
