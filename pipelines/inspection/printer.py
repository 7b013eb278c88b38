"""Prints facts as tables: to a terminal, or as plain lines to a file or a pipe."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.inspection.cells import MISSING, NAME, escape_formula, is_number, one_line, size
from pipelines.report.formatting import number

if TYPE_CHECKING:
    from pipelines.inspection.artifact import ArtifactFacts
    from pipelines.inspection.preview import Preview
    from pipelines.inspection.raw import RawFacts
    from pipelines.inspection.reasons import Reasons
    from pipelines.inspection.statistics import ColumnStatistics

MAX_CLASSES = 50
_PLAIN_WIDTH = 200  # characters per line in a file or a pipe
_MAX_LINES = 5  # of warnings, reasons, faults
_MAX_FOLDERS = 10
_LINE = 300  # characters of a reason or warning
_PADDING = 2


class Printer:
    """Prints facts to one stream."""

    def __init__(self, stream: TextIO) -> None:
        """Detects whether the stream is a terminal, a pipe, or a file that a spreadsheet might open."""
        width = None if stream.isatty() else _PLAIN_WIDTH
        self._console = Console(file=stream, highlight=False, width=width)
        self._clean: Callable[[str], str] = escape_formula if _is_file(stream) else str

    @contextmanager
    def progress(self) -> Iterator[Callable[[int], None]]:
        """Shows a live line on a terminal; yields a function that takes the number of records read."""
        if not self._console.is_terminal:
            yield lambda _: None
            return
        with self._console.status("reading …") as status:
            yield lambda records: status.update(f"{records:,} records read …")

    def raw(self, facts: "RawFacts", sheet: str) -> None:
        """Prints what is in raw data."""
        self._pairs(
            ("path", one_line(facts.path, _LINE)),
            ("kind", facts.kind),
            ("files", f"{facts.files:,}, {size(facts.bytes)}"),
            ("records", f"{facts.records:,}{_folders(dict(sorted(facts.folders.items())))}"),
            *self._reasons("bad", facts.bad),
            *_lines("warning", facts.warnings),
            *_lines("unreadable", facts.failures),
            ("sheet", sheet),
        )
        self._columns(list(facts.columns.values()), facts.left_columns)
        if facts.classes:
            counts = {name: (count,) for name, count in facts.classes.items()}
            self._classes(f"classes by {one_line(facts.label)}", ("records",), counts)
        self._records(facts.preview)

    def artifact(self, facts: "ArtifactFacts", sheet: str) -> None:
        """Prints what is in an artifact."""
        stored = facts.manifest
        records = sum(stored.records.values())
        self._pairs(
            ("path", one_line(facts.path, _LINE)),
            ("kind", "Examples artifact"),
            ("sources", f"{len(stored.sources):,}, {size(sum(source[1] for source in stored.sources))}"),
            ("records", f"{records:,} of {stored.found:,}"),
            *self._reasons("quarantined", facts.reasons, stored.quarantined),
            *_lines("changed", [f"{reason}: {count:,}" for reason, count in stored.changed.items()]),
            *_lines("warning", (*stored.warnings, *facts.warnings)),
            ("manifest", _verdict(facts)),
            *_lines("fault", facts.faults),
            ("sheet", sheet),
        )
        self._splits(facts)
        names = list(dict.fromkeys(name for counts in stored.classes.values() for name in counts))
        if names:
            table = {name: tuple(counts.get(name, 0) for counts in stored.classes.values()) for name in names}
            self._classes("classes", tuple(stored.classes), table)
        self._records(facts.preview)

    def _pairs(self, *rows: tuple[str, str]) -> None:
        table = Table(show_header=False, box=None, padding=(0, _PADDING, 0, 0))
        table.add_column()
        table.add_column(overflow="fold")
        for name, value in rows:
            if value:
                table.add_row(Text(name, style="bold"), Text(value))
        self._console.print(table)

    def _reasons(self, name: str, reasons: "Reasons", total: int | None = None) -> Iterator[tuple[str, str]]:
        yield name, f"{reasons.total if total is None else total:,}"
        common = reasons.most_common(_MAX_LINES)
        for reason, count, place in common:
            where = f", such as {one_line(place, _LINE)}" if place else ""
            yield "", f"{count:,} × {one_line(reason, _LINE)}{where}"
        if rest := reasons.total - sum(count for _, count, _ in common):
            yield "", f"{rest:,} for other reasons"

    def _columns(self, columns: Sequence["ColumnStatistics"], left: int) -> None:
        if not columns:
            return
        heads = ("column", "type", "missing", "distinct", "min", "mean", "max", "length")
        rows = [self._column(column) for column in columns]
        used = [index for index in range(len(heads)) if index < _TEXTS or any(row[index] for row in rows)]
        kept = [[row[index] for index in used] for row in rows]
        self._table([heads[index] for index in used], kept, right=range(_TEXTS, len(used)))
        if left:
            self._console.print(f"… {left:,} more columns")

    def _column(self, column: "ColumnStatistics") -> tuple[str, ...]:
        low, mean, high = ("", "", "")
        if column.numbers:
            low, mean, high = number(column.numbers.least), number(column.numbers.mean), number(column.numbers.most)
        nan = f" + {column.nan:,} NaN" if column.nan else ""
        return (
            self._clean(one_line(column.name, NAME)),
            one_line(column.kind),
            f"{column.missing:,}{nan}",
            _distinct(column),
            low,
            mean,
            high,
            _span(column.lengths),
        )

    def _splits(self, facts: "ArtifactFacts") -> None:
        stored = facts.manifest
        rows = [
            [split, f"{records:,}", f"{len(shards):,}", size(sum(shard.bytes for shard in shards))]
            for split, records in stored.records.items()
            for shards in [stored.shards_of(split)]
        ]
        self._table(["split", "records", "shards", "bytes"], rows, right=range(1, 4))

    def _classes(self, title: str, heads: tuple[str, ...], counts: Mapping[str, tuple[int, ...]]) -> None:
        ranked = list(counts)
        if len(ranked) > MAX_CLASSES:
            ranked = sorted(counts, key=lambda name: -sum(counts[name]))[:MAX_CLASSES]
        table = {name: (*counts[name], sum(counts[name])) if len(heads) > 1 else counts[name] for name in ranked}
        rows = [[self._clean(one_line(name, NAME)), *(f"{count:,}" for count in row)] for name, row in table.items()]
        heads = (*heads, "all") if len(heads) > 1 else heads
        self._table([title, *heads], rows, right=range(1, len(heads) + 1))
        if left := len(counts) - len(ranked):
            rest = sum(map(sum, counts.values())) - sum(sum(counts[name]) for name in ranked)
            self._console.print(f"… {left:,} more classes with {rest:,} records")

    def _records(self, preview: "Preview") -> None:
        """Prints records side by side; columns that do not fit on a line follow in another table."""
        if not preview.rows:
            return
        names = [self._clean(one_line(name)) for name in preview.names]
        rows = [[self._clean(value) for value in row] for row in preview.rows]
        widths = [max(map(cell_len, (name, *values))) for name, *values in zip(names, *rows, strict=True)]
        for block in _blocks(widths, self._console.width - len(str(len(rows))) - _PADDING):
            heads = ["#", *(names[index] for index in block)]
            numbered = [[str(place), *(row[index] for index in block)] for place, row in enumerate(rows, start=1)]
            numeric = [place for place, values in enumerate(zip(*numbered, strict=True)) if all(map(is_number, values))]
            self._table(heads, numbered, right=numeric)
        if preview.left:
            self._console.print(f"… {preview.left:,} more columns")

    def _table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
        """Prints a table; the columns in `right` are right-aligned."""
        table = Table(box=None, padding=(0, _PADDING, 0, 0), header_style="bold")
        for index, head in enumerate(heads):
            table.add_column(Text(head), justify="right" if index in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        self._console.print()
        self._console.print(table)


_TEXTS = 2  # left-aligned columns: name and type


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # an in-memory stream
        return False


def _lines(name: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines[:_MAX_LINES]:
        yield name, one_line(line, _LINE)
    if len(lines) > _MAX_LINES:
        yield name, f"… {len(lines) - _MAX_LINES:,} more"


def _folders(folders: Mapping[str, int]) -> str:
    if len(folders) <= 1:
        return ""
    shown = [f"{one_line(name, NAME)} {count:,}" for name, count in list(folders.items())[:_MAX_FOLDERS]]
    more = [f"… {len(folders) - _MAX_FOLDERS:,} more folders"] if len(folders) > _MAX_FOLDERS else []
    return f" ({', '.join([*shown, *more])})"


def _verdict(facts: "ArtifactFacts") -> str:
    if facts.faults:
        return f"does not match the shards: {len(facts.faults)} faults"
    if facts.verified:
        return "matches the shards by size and checksum"
    return "matches the shards by size; compare checksums with --verify"


def _distinct(column: "ColumnStatistics") -> str:
    if column.over:
        return "> 1,000"
    return MISSING if column.distinct is None else f"{column.distinct:,}"


def _span(lengths: tuple[int, int] | None) -> str:
    if lengths is None:
        return ""
    low, high = lengths
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Divides columns into blocks that fit on a line; a column that is too wide has its own block."""
    blocks: list[list[int]] = []
    left = 0
    for index, width in enumerate(widths):
        if not blocks or width + _PADDING > left:
            blocks.append([])
            left = room
        blocks[-1].append(index)
        left -= width + _PADDING
    return blocks
