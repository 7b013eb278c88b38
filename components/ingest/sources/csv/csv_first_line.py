"""Decides whether the first line of CSV files is a header: compares its cells with the lines below.

    first line ─┬─ a cell is a number, date or code like its column ───────────────────► data
                ├─ a cell is text, its column holds numbers, dates or codes ───────────► column names
                ├─ a cell is empty; occurs twice; occurs again in a column of few values;
                │  is a long text ─────────────────────────────────────────────────────► data
                ├─ all cells are short, distinct, and not among few values below ──────► column names
                └─ else ───────────────────────────────────────────────────────────────► unknown: column names

The decision is one for all files. A setting that names a cell of the first line makes it a header.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from components.errors import BadInput
from components.ingest.sources.conversion import shorten
from components.ingest.sources.csv import csv_header
from components.ingest.sources.csv.csv_cells import MISSING, NUMBER, TRUTH
from components.ingest.sources.csv.csv_header import FirstLines
from components.ingest.sources.rows import Decision
from components.records.quarantine import printable
from components.storage.paths import DataPath

_ROWS = 500  # rows that the first line is compared with
_MOST = 0.9  # of the values of a column
_LETTER, _DIGIT, _DIGITS = re.compile(r"[^\W\d_]"), re.compile(r"\d"), re.compile(r"\d+")
_WORD, _TEXT = re.compile(r"[^\W\d_]+"), re.compile(r"a\s|\sa")  # a run of letters; words in the form of a value
_NUMBER, _TRUTH = re.compile(NUMBER), re.compile(TRUTH)
_NOT_NAMES = {"nan", "inf", "-inf", "infinity", "none", "null", "na"}  # in lower case
_LONG_CELL, _LONG_VALUES = 40, 20  # characters of a cell that is no name, and of the values below it


@dataclass(frozen=True)
class HeaderVerdict:
    """Whether a first line is a header, and why; None: it cannot be decided."""

    is_header: bool | None
    reason: str


def decide(
    files: Sequence[DataPath], names: Sequence[str], known: Collection[str], max_row: int
) -> tuple[bool, Decision]:
    """Returns whether the files have a header, and the decision, empty if they clearly have one.

    Args:
        files: all files of the data set.
        names: `ingest.names`.
        known: columns that other settings name.
        max_row: bytes of a row, at most.
    """
    found: dict[bool | None, tuple[DataPath, HeaderVerdict]] = {}
    for path in files:
        verdict = of_file(path, names, known, max_row)
        found.setdefault(verdict.is_header, (path, verdict))
    if True in found and False in found:
        (first, with_header), (second, without) = found[True], found[False]
        raise BadInput(
            f"{printable(str(second))}: its first line looks like data ({without.reason}), but that of "
            f"{printable(str(first))} like column names ({with_header.reason}); all files of a data set need the same "
            "form: correct them, or set ingest.header to yes or no"
        )
    is_header = True if True in found else False if False in found or names else None
    path, verdict = found[is_header] if is_header in found else found[None]
    if verdict.is_header:
        return True, Decision()
    read_as = "data" if is_header is False else "column names"
    other = "--set ingest.header=no reads it as data"
    if is_header is False:
        other = "--set ingest.header=yes reads it as column names" + (
            "" if names else ", ingest.names names the columns"
        )
    text = f"first line of {printable(path.name)} read as {read_as}: {verdict.reason}; {other}"
    return is_header is not False, Decision(text, is_clear=is_header is False)


def check_header(path: DataPath, names: Sequence[str], known: Collection[str], max_row: int) -> Decision:
    """Returns a warning if `ingest.header = yes` makes a header of a line that looks like data; see `decide`."""
    verdict = of_file(path, names, known, max_row)
    if verdict.is_header is not False:
        return Decision()
    becomes = "replaced by ingest.names" if names else "read as column names"
    text = (
        f"first line of {printable(path.name)} {becomes} because of ingest.header = yes, but it looks like data: "
        f"{verdict.reason}; --set ingest.header=no reads it as data"
    )
    return Decision(text, is_clear=False)


def of_file(path: DataPath, names: Sequence[str], known: Collection[str], max_row: int) -> HeaderVerdict:
    """Returns what the first line of one file is."""
    lines = csv_header.first_lines(path, max_row)
    width = int(lines.records.widths[lines.first])
    rows = [row for row in lines.records.well_formed(width) if row > lines.first][:_ROWS]
    if lines.records.broken[lines.first] or not rows:
        return HeaderVerdict(None, "no line below it to compare with")
    cells, *_ = _transposed(lines, [lines.first], width)
    columns = list(zip(*_transposed(lines, rows, width), strict=True))
    if cells == list(names) or (set(cells) & set(known)):
        return HeaderVerdict(True, "the settings name its cells")
    return compare(cells, columns)


def compare(cells: Sequence[str], columns: Sequence[Sequence[str]]) -> HeaderVerdict:
    """Compares the cells of a first line with the values below."""
    found: dict[bool, str] = {}
    for number, (cell, values) in enumerate(zip(cells, columns, strict=True), 1):
        if vote := _vote(cell, [value for value in values if value not in MISSING]):
            found.setdefault(vote.is_header is True, f"{vote.reason} column {number}")
    if False in found:  # also against a cell that looks like a name: a record would be lost, silently
        although = f", although {found[True]}" if True in found else ""
        return HeaderVerdict(False, found[False] + although)
    if True in found:
        return HeaderVerdict(True, found[True])
    if not cells[0] and list(columns[0]) == [str(number) for number in range(len(columns[0]))]:
        return HeaderVerdict(True, "its first cell is empty above row numbers")
    return _compare_texts(cells, columns)


def _vote(cell: str, values: Sequence[str]) -> HeaderVerdict | None:
    """Returns what one cell shows, if its column holds numbers, truth values or codes."""
    shown = repr(shorten(cell))
    is_name = bool(_LETTER.search(cell)) and cell.lower() not in _NOT_NAMES
    for pattern, noun in ((_NUMBER, "number"), (_TRUTH, "truth value")):
        if values and _share(pattern, values) >= _MOST:
            if pattern.search(cell):
                return HeaderVerdict(False, f"{shown} is a {noun} like those below it in")
            return HeaderVerdict(True, f"{shown} is text above {noun}s in") if is_name else None
    if values and _share(_DIGIT, values) >= _MOST:
        same = sum(_DIGITS.sub("0", value) == _DIGITS.sub("0", cell) for value in values)
        if 2 * same > len(values):
            return HeaderVerdict(False, f"{shown} has the form of the values below it in")
        if is_name and not _DIGIT.search(cell) and _are_codes(values):
            return HeaderVerdict(True, f"{shown} has no digit, unlike the values below it in")
    return None


def _are_codes(values: Sequence[str]) -> bool:
    """Whether nearly all values have one form, such as 2024-05-01 or AB-17, and are not texts of several words."""
    [(form, count)] = Counter(_DIGITS.sub("0", _WORD.sub("a", value)) for value in values).most_common(1)
    return count >= _MOST * len(values) and not _TEXT.search(form)


def _compare_texts(cells: Sequence[str], columns: Sequence[Sequence[str]]) -> HeaderVerdict:
    if "" in cells:
        return HeaderVerdict(False, f"its cell {cells.index('') + 1} is empty")
    if twice := [cell for number, cell in enumerate(cells) if cell in cells[:number]]:
        return HeaderVerdict(False, f"{shorten(twice[0])!r} occurs twice in it")
    few = [2 * len(set(values)) <= len(values) for values in columns]
    for number, (cell, values) in enumerate(zip(cells, columns, strict=True), 1):
        if few[number - 1] and cell in values:
            return HeaderVerdict(False, f"{shorten(cell)!r} occurs again in column {number}")
        if len(cell) > _LONG_CELL and median(map(len, values)) > _LONG_VALUES:
            return HeaderVerdict(False, f"its cell {number} is a long text like those below it")
    if any(few):
        return HeaderVerdict(True, "its cells do not occur again in their columns")
    return HeaderVerdict(None, "it may be data, nothing distinguishes it from the lines below it")


def _transposed(lines: FirstLines, rows: Sequence[int], width: int) -> list[list[str]]:
    columns = lines.cells(rows, width)
    return [[cell.decode("utf-8", "replace").strip() for cell in row] for row in zip(*columns, strict=True)]


def _share(pattern: re.Pattern[str], values: Sequence[str]) -> float:
    return sum(pattern.search(value) is not None for value in values) / len(values)
