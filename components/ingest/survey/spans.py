"""Data that grows by spans: one folder or file a day, say, each perhaps corrected by a later version.

    logs/{SPAN}/v{VERSION}/*.csv ─► what stands there ─► (span 3, version 2), (span 4, version 1) ─► logs/3/v2/*.csv …

A span is a number that never comes back; of its versions only the highest counts. `{SPAN:3}` stands for exactly three
digits. A pattern without `{SPAN}` is one whole.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from components.errors import BadInput, SettingsError

_FIELD = re.compile(r"\{(SPAN|VERSION)(?::([1-9]))?\}")
_WANTED = re.compile(r"all|latest|last (?P<last>[1-9]\d*)|(?P<first>\d+)-(?P<final>\d+)")
EXPECTED = "expected all, latest, 'last N', or A-B as in 3-7"


@dataclass(frozen=True)
class Span:
    """One part of the data, and where it stands."""

    data: str  # the pattern with its numbers filled in
    number: int | None = None
    version: int | None = None

    @property
    def name(self) -> str:
        """What tells the files of one span from those of others; empty for data that is one whole."""
        return "" if self.number is None else f"s{self.number:05d}"


def find(data: str, wanted: str, glob: Callable[[str], Iterable[str]]) -> tuple[Span, ...]:
    """Returns the wanted spans in rising order, each at its highest version.

    Args:
        data: a path or pattern, perhaps with {SPAN} and {VERSION}.
        wanted: which spans; see `EXPECTED`.
        glob: lists the paths that match a pattern with * and ?.
    """
    check_wanted(wanted)
    _check_pattern(data)
    if "{SPAN" not in data:
        return (Span(data),)
    head = _head(data)
    newest: dict[int, Span] = {}
    for path in sorted(glob(as_pattern(head))):
        if found := _matcher(head).fullmatch(path):
            span = _span(data, found)
            known = newest.get(span.number or 0)
            if known is None or (span.version or 0) > (known.version or 0):
                newest[span.number or 0] = span
    chosen = _choose(sorted(newest), wanted)
    if not chosen:
        there = f"spans {', '.join(map(str, sorted(newest)[-5:]))}" if newest else "no span at all"
        raise BadInput(f"{data}: 0 examples: nothing for ingest.spans = {wanted}; there: {there}")
    return tuple(newest[number] for number in chosen)


def as_pattern(data: str) -> str:
    """Returns the pattern of all spans in all versions."""
    return _FIELD.sub("*", data)


def check_wanted(wanted: str) -> None:
    """Refuses a wish for spans that cannot be understood."""
    found = _WANTED.fullmatch(wanted)
    if not found or (found["first"] and int(found["first"]) > int(found["final"])):
        raise SettingsError(f"setting ingest.spans: {EXPECTED} (got {wanted!r})")


def _check_pattern(data: str) -> None:
    """Refuses braces that would otherwise be taken for a part of a file's name."""
    kinds = [found[1] for found in _FIELD.finditer(data)]
    if kinds.count("SPAN") > 1 or kinds.count("VERSION") > 1:
        raise SettingsError(f"{data}: {{SPAN}} and {{VERSION}} may stand in it once")
    if "VERSION" in kinds and "SPAN" not in kinds:
        raise SettingsError(f"{data}: {{VERSION}} without {{SPAN}}; a version is one of a span")
    if re.search(r"\{(SPAN|VERSION)", _FIELD.sub("", data)):
        raise SettingsError(
            f"{data}: expected {{SPAN}} or {{SPAN:3}}, the digits from 1 to 9; the same for {{VERSION}}"
        )


def _head(data: str) -> str:
    """Returns the pattern up to the path segment that holds its last field: what is below belongs to the span."""
    last = [found.end() for found in _FIELD.finditer(data)][-1]
    slash = data.find("/", last)
    return data if slash < 0 else data[:slash]


def _matcher(head: str) -> re.Pattern[str]:
    pattern, at = "", 0
    for found in _FIELD.finditer(head):
        digits = rf"\d{{{found[2]}}}" if found[2] else r"\d+"
        pattern += _wild(head[at : found.start()]) + f"(?P<{found[1]}>{digits})"
        at = found.end()
    return re.compile(pattern + _wild(head[at:]))


def _wild(text: str) -> str:
    """Returns a pattern of the shell as one of `re`."""
    return re.escape(text).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


def _span(data: str, found: re.Match[str]) -> Span:
    filled = _FIELD.sub(lambda field: found[field[1]], data)
    version = found.groupdict().get("VERSION")
    return Span(filled, int(found["SPAN"]), None if version is None else int(version))


def _choose(numbers: list[int], wanted: str) -> list[int]:
    found = _WANTED.fullmatch(wanted)
    if not found or wanted == "all":
        return numbers
    if found["first"]:
        return [number for number in numbers if int(found["first"]) <= number <= int(found["final"])]
    return numbers[-int(found["last"] or 1) :]
