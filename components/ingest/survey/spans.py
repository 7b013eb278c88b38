"""Data in spans: for example one folder or file per day, each of which may be corrected by a later version.

    logs/{SPAN}/v{VERSION}/*.csv ─► files there ─► (span 3, version 2), (span 4, version 1) ─► logs/3/v2/*.csv …

A span is a number that is never reused; of its versions only the highest counts. `{SPAN:3}` matches exactly three
digits. A pattern without `{SPAN}` is one span without a number.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from components.errors import BadInput, SettingsError

_FIELD = re.compile(r"\{(SPAN|VERSION)(?::([1-9]))?\}")
_SELECTION = re.compile(r"all|latest|last (?P<last>[1-9]\d*)|(?P<first>\d+)-(?P<final>\d+)")
EXPECTED = "expected all, latest, 'last N', or A-B as in 3-7"


@dataclass(frozen=True)
class Span:
    """One span of the data, and where it is."""

    data: str  # the pattern with its numbers filled in
    number: int | None = None
    version: int | None = None

    @property
    def name(self) -> str:
        """Prefix of the shard names of this span; empty for data without spans."""
        return "" if self.number is None else f"s{self.number:05d}"


def find(data: str, selection: str, glob: Callable[[str], Iterable[str]]) -> tuple[Span, ...]:
    """Returns the selected spans in ascending order, each at its highest version.

    Args:
        data: a path or pattern, possibly with {SPAN} and {VERSION}.
        selection: which spans; see `EXPECTED`.
        glob: lists the paths that match a pattern with * and ?.
    """
    check_selection(selection)
    _check_pattern(data)
    if "{SPAN" not in data:
        return (Span(data),)
    newest = _newest(data, glob)
    selected = _select(sorted(newest), selection)
    if not selected:
        found = f"found spans {', '.join(map(str, sorted(newest)[-5:]))}" if newest else "found no span"
        raise BadInput(f"{data}: 0 examples: no span for ingest.spans = {selection}; {found}")
    return tuple(newest[number] for number in selected)


def as_pattern(data: str) -> str:
    """Returns the pattern of all spans in all versions."""
    return _FIELD.sub("*", data)


def check_selection(selection: str) -> None:
    """Rejects a selection of spans that cannot be parsed."""
    found = _SELECTION.fullmatch(selection)
    if not found or (found["first"] and int(found["first"]) > int(found["final"])):
        raise SettingsError(f"setting ingest.spans: {EXPECTED} (got {selection!r})")


def _newest(data: str, glob: Callable[[str], Iterable[str]]) -> dict[int, Span]:
    """Returns every span by number, at its highest version."""
    head = _head(data)
    matcher = _matcher(head)
    spans = [_span(data, found) for path in sorted(glob(as_pattern(head))) if (found := matcher.fullmatch(path))]
    newest: dict[int, Span] = {}
    for span in sorted(spans, key=lambda span: span.version or 0, reverse=True):  # stable: the first path of equal ones
        newest.setdefault(span.number or 0, span)
    return newest


def _check_pattern(data: str) -> None:
    """Rejects braces that would otherwise be taken as part of a file name."""
    kinds = [found[1] for found in _FIELD.finditer(data)]
    if kinds.count("SPAN") > 1 or kinds.count("VERSION") > 1:
        raise SettingsError(f"{data}: {{SPAN}} and {{VERSION}} may each occur once")
    if "VERSION" in kinds and "SPAN" not in kinds:
        raise SettingsError(f"{data}: {{VERSION}} without {{SPAN}}; a version belongs to a span")
    if re.search(r"\{(SPAN|VERSION)", _FIELD.sub("", data)):
        raise SettingsError(
            f"{data}: expected {{SPAN}} or {{SPAN:3}}, with 1 to 9 digits; the same holds for {{VERSION}}"
        )


def _head(data: str) -> str:
    """Returns the pattern up to the path segment with the last field; everything below belongs to the span."""
    last = [found.end() for found in _FIELD.finditer(data)][-1]
    slash = data.find("/", last)
    return data if slash < 0 else data[:slash]


def _matcher(head: str) -> re.Pattern[str]:
    pattern, at = "", 0
    for found in _FIELD.finditer(head):
        digits = rf"\d{{{found[2]}}}" if found[2] else r"\d+"
        pattern += _as_regex(head[at : found.start()]) + f"(?P<{found[1]}>{digits})"
        at = found.end()
    return re.compile(pattern + _as_regex(head[at:]))


def _as_regex(pattern: str) -> str:
    """Returns a shell pattern as a regular expression."""
    return re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


def _span(data: str, found: re.Match[str]) -> Span:
    filled = _FIELD.sub(lambda field: found[field[1]], data)
    version = found.groupdict().get("VERSION")
    return Span(filled, int(found["SPAN"]), None if version is None else int(version))


def _select(numbers: list[int], selection: str) -> list[int]:
    found = _SELECTION.fullmatch(selection)
    if not found or selection == "all":
        return numbers
    if found["first"]:
        return [number for number in numbers if int(found["first"]) <= number <= int(found["final"])]
    return numbers[-int(found["last"] or 1) :]
