"""Prints facts as tables: to a terminal, or as plain lines to a file or a pipe."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from pipelines.inspection.artifact import ArtifactFacts
from pipelines.inspection.cells import MISSING, NAME, escape_formula, is_number, one_line
from pipelines.inspection.preview import Preview
from pipelines.inspection.raw import RawFacts
from pipelines.inspection.reasons import Reasons
from pipelines.inspection.statistics import MAX_DISTINCT, ColumnStatistics
from pipelines.report.formatting import number

MAX_CLASSES = 50
_PLAIN_WIDTH = 200  # characters per line in a file or a pipe
_MAX_LINES = 5  # of warnings, reasons, faults
_MAX_FOLDERS = 10
_LINE = 300  # characters of a reason or warning
_PADDING = 2
_TEXTS = 2  # left-aligned columns of statistics: name and type


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

    def show(self, facts: RawFacts | ArtifactFacts, sheet: str) -> None:
        """Prints what is in raw data or in an artifact; `sheet` is a line about the contact sheet."""
        if isinstance(facts, RawFacts):
            self._raw(facts, sheet)
        else:
            self._artifact(facts, sheet)
        self._records(facts.preview)

    def _raw(self, facts: RawFacts, sheet: str) -> None:
        self._pairs(
            ("path", one_line(facts.path, _LINE)),
            ("kind", facts.kind),
            ("files", f"{facts.files:,}, {decimal(facts.bytes)}"),
            ("records", f"{facts.records:,}{_folders(dict(sorted(facts.folders.items())))}"),
            *_reasons("bad", facts.bad),
            *_lines("note", facts.notes),
            *_lines("warning", facts.warnings),
            *_lines("unreadable", facts.failures),
            ("sheet", sheet),
        )
        self._columns(list(facts.columns.values()), facts.left_columns)
        if facts.classes:
            counts = {name: (count,) for name, count in facts.classes.items()}
            self._classes([f"classes by {one_line(facts.label)}", "records"], counts)

    def _artifact(self, facts: ArtifactFacts, sheet: str) -> None:
        stored = facts.manifest
        self._pairs(
            ("path", one_line(facts.path, _LINE)),
            ("kind", "Examples artifact"),
            ("sources", f"{stored.sources.files:,}, {decimal(stored.sources.bytes)}"),
            ("records", f"{sum(stored.records.values()):,} of {stored.found:,}"),
            *_reasons("quarantined", facts.reasons, stored.quarantined),
            *_lines("changed", [f"{reason}: {count:,}" for reason, count in stored.changed.items()]),
            *_lines("note", stored.notes),
            *_lines("warning", (*stored.warnings, *facts.warnings)),
            ("manifest", _verdict(facts)),
            *_lines("fault", facts.faults),
            ("sheet", sheet),
        )
        shards = {split: stored.shards_of(split) for split in stored.records}
        rows = [
            [split, f"{records:,}", f"{len(shards[split]):,}", decimal(sum(shard.bytes for shard in shards[split]))]
            for split, records in stored.records.items()
        ]
        self._table(["split", "records", "shards", "bytes"], rows, right=range(1, 4))
        names = dict.fromkeys(name for counts in stored.classes.values() for name in counts)
        if names:
            table = {name: [counts.get(name, 0) for counts in stored.classes.values()] for name in names}
            every = {name: (*counts, sum(counts)) if len(counts) > 1 else counts for name, counts in table.items()}
            self._classes(["classes", *stored.classes, *(["all"] if len(stored.classes) > 1 else [])], every)

    def _pairs(self, *rows: tuple[str, str]) -> None:
        table = Table(show_header=False, box=None, padding=(0, _PADDING, 0, 0))
        table.add_column()
        table.add_column(overflow="fold")
        for name, value in rows:
            if value:
                table.add_row(Text(name, style="bold"), Text(value))
        self._console.print(table)

    def _columns(self, columns: Sequence[ColumnStatistics], left: int) -> None:
        if not columns:
            return
        heads = ("column", "type", "missing", "distinct", "min", "mean", "max", "length")
        rows = [self._column(column) for column in columns]
        used = [index for index in range(len(heads)) if index < _TEXTS or any(row[index] for row in rows)]
        kept = [[row[index] for index in used] for row in rows]
        self._table([heads[index] for index in used], kept, right=range(_TEXTS, len(used)))
        if left:
            self._console.print(f"… {left:,} more columns")

    def _column(self, column: ColumnStatistics) -> list[str]:
        nan = f" + {column.nan:,} NaN" if column.nan else ""
        distinct = MISSING if column.distinct is None else f"{column.distinct:,}"
        return [
            self._clean(one_line(column.name, NAME)),
            one_line(column.kind),
            f"{column.missing:,}{nan}",
            f"> {MAX_DISTINCT:,}" if column.over else distinct,
            *(map(number, column.numbers) if column.numbers else ("", "", "")),
            " to ".join(f"{length:,}" for length in sorted(set(column.lengths or ()))),
        ]

    def _classes(self, heads: Sequence[str], counts: Mapping[str, Sequence[int]]) -> None:
        """Prints one row per class; the last count of a class is its total."""
        ranked = list(counts)
        if len(ranked) > MAX_CLASSES:
            ranked = sorted(counts, key=lambda name: -counts[name][-1])[:MAX_CLASSES]
        rows = [[self._clean(one_line(name, NAME)), *(f"{count:,}" for count in counts[name])] for name in ranked]
        self._table(heads, rows, right=range(1, len(heads)))
        if left := len(counts) - len(ranked):
            rest = sum(row[-1] for row in counts.values()) - sum(counts[name][-1] for name in ranked)
            self._console.print(f"… {left:,} more classes with {rest:,} records")

    def _records(self, preview: Preview) -> None:
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


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # an in-memory stream
        return False


def _reasons(name: str, reasons: Reasons, total: int | None = None) -> Iterator[tuple[str, str]]:
    yield name, f"{reasons.total if total is None else total:,}"
    common = reasons.most_common(_MAX_LINES)
    for reason, count, place in common:
        where = f", such as {one_line(place, _LINE)}" if place else ""
        yield "", f"{count:,} × {one_line(reason, _LINE)}{where}"
    if rest := reasons.total - sum(count for _, count, _ in common):
        yield "", f"{rest:,} for other reasons"


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


def _verdict(facts: ArtifactFacts) -> str:
    if facts.faults:
        return f"does not match the shards: {len(facts.faults)} faults"
    if facts.verified:
        return "matches the shards by size and checksum"
    return "matches the shards by size; compare checksums with --verify"


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
