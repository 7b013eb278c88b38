"""Work units: what one Beam element reads and writes, decided before any byte is moved.

    one span ─┬─ a file is a record ─► every n-th file ──────────► one work unit ─┐
              └─ files of rows ─► each divided by a worker ─► one work unit per range ─┴─► one shard per split

Files are divided by the listing alone: by their number and size, not by their content, which only workers read. A range
is named by the number of its file and its own: no count over all files is needed. No record crosses a shuffle, and a
retried bundle writes the same files again.

Beam, TensorFlow, Arrow and pydantic are not imported at the top: a worker process, which writes units of files, does
without them and so starts in 0.1 s.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from components import refs
from components.ingest.close import reports
from components.ingest.pool import Pool
from components.ingest.survey.detect import Place
from components.ingest.write import files, shards
from components.ingest.write.report import ShardReport
from components.ingest.write.shards import PlainSplits
from components.storage import transfers

if TYPE_CHECKING:
    from components.ingest.sources.rows import Range
    from components.ingest.survey.survey import SpanFiles, Table
    from components.ingest.write.rows import RangeReader
    from components.settings.ingest import Ingest
    from components.storage.location import Location

_MIN_RANGE = 256 << 10  # bytes: a smaller range costs more to start than to read
_MOST_FILES = 20_000  # per unit: their list has about 2 MB, and a worker that is lost loses minutes, not hours
_LISTS = 16  # that are written to a store at once
_MANY_FILES, _MANY_BYTES = 2_000, 64 << 20  # from either of them on, starting worker processes pays
_CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Output:
    """Where work units write their shards, and by which settings."""

    artifact: "Location"
    settings: "Ingest"
    checks: Path | None = None  # cache of image checks, on the disk of this machine
    table: "Table | None" = None  # the columns of rows; here, because a copy in every unit could be gigabytes

    def for_workers(self) -> "Output":
        """Returns the output for Beam's workers: if they share only a store, they have no cache of image checks."""
        return self if isinstance(self.artifact, Path) else replace(self, checks=None)

    def columns(self) -> "Table":
        """Returns the columns of rows."""
        if self.table is None:
            raise ValueError("files that are records have no table")
        return self.table

    def plain(self) -> "Output":
        """Returns the output with settings that a worker process can read without importing pydantic."""
        splits = self.settings.splits
        plain = PlainSplits(splits.fractions(), splits.salt, splits.stratify)
        settings = SimpleNamespace(**{**self.settings.model_dump(), "splits": plain})
        return replace(self, settings=cast("Ingest", settings))


@dataclass(frozen=True)
class FilesUnit:
    """Some of the files of a span: a shard for each split that it has records of. Their list travels as a file."""

    shard: str  # end of the shards' names
    home: Place
    source: str
    numbers: range  # of its files, in the listing of the span
    bytes: int

    @property
    def name(self) -> str:
        """Number of the unit."""
        return f"files-{self.shard}"

    def write(self, output: Output) -> Sequence[ShardReport]:
        """Reads, checks and writes the files."""
        return files.write_unit(self._reader(output), self.shard, output.artifact)

    def _reader(self, output: Output) -> files.UnitReader:
        listed = reports.files_of(output.artifact, self.shard)
        source = refs.load(self.source)
        return files.UnitReader(listed, self.numbers, source, self.home, output.settings, output.checks)


@dataclass(frozen=True)
class FilePlacesUnit(FilesUnit):
    """Some files, read for their places and classes: stratified splits need those of all data."""

    @property
    def name(self) -> str:
        """Number of the unit."""
        return f"places-{self.shard}"

    def write(self, output: Output) -> Sequence[ShardReport]:
        """Hashes the files and stores places and classes."""
        from components.ingest.write import strata

        try:
            strata.store(output.artifact, self.name, self._reader(output).places())
        except files.InputChangedError as error:
            return [ShardReport(failure=str(error))]
        return ()


@dataclass(frozen=True)
class RowsUnit:
    """One range of rows: a shard for each split that it has records of."""

    part: "Range"
    shard: str  # end of the shards' names
    home: Place

    @property
    def name(self) -> str:
        """Number of the range."""
        return f"range-{self.shard}"

    def write(self, output: Output) -> Sequence[ShardReport]:
        """Reads the range and writes its shards."""
        from components.ingest.write.rows import write_range

        return write_range(self._reader(output), self.shard, output.artifact)

    def _reader(self, output: Output) -> "RangeReader":
        from components.ingest.write.rows import RangeReader

        table, settings = output.columns(), output.settings
        split_by = table.names.get(settings.split_by, settings.split_by)
        return RangeReader(
            self.part, table.source, table.schema, self.home,
            settings.model_copy(update={"split_by": split_by}), table.label, table.images, output.checks,
        )  # fmt: skip


@dataclass(frozen=True)
class PlacesUnit(RowsUnit):
    """One range of rows, read for the places and classes of its records: stratified splits need those of all data."""

    @property
    def name(self) -> str:
        """Number of the range."""
        return f"places-{self.shard}"

    def write(self, output: Output) -> Sequence[ShardReport]:
        """Reads the range and stores places and classes; it has no report."""
        from components.ingest.write import strata
        from components.ingest.write.rows import place_range

        strata.store(output.artifact, self.name, place_range(self._reader(output)))
        return ()


Unit = FilesUnit | RowsUnit


@dataclass(frozen=True)
class RowsFile:
    """A file of rows, which becomes the units of its ranges: to find where records end, most formats are read."""

    path: str  # relative to home
    home: Place
    number: str  # begins the ends of its shards' names
    target: int  # bytes per range
    kind: type[RowsUnit] = RowsUnit

    def units(self, output: Output) -> list[RowsUnit]:
        """Returns the work units of the file; they are stored for the next pass, and for those who collect reports."""
        found = reports.division(output.artifact, self.number)
        if found is None:
            found = output.columns().source.divide(self.home / self.path, self.path, self.target)
            reports.store_division(output.artifact, self.number, found)
        return self.units_of(found)

    def units_of(self, ranges: "Sequence[Range]") -> list[RowsUnit]:
        """Returns a work unit per range."""
        return [
            self.kind(each, shards.numbered(index, len(ranges), self.number), self.home)
            for index, each in enumerate(ranges)
        ]


def units_of(item: FilesUnit | RowsFile, output: Output) -> Sequence[Unit]:
    """Returns the work units of an element of the work list."""
    return item.units(output) if isinstance(item, RowsFile) else [item]


def write(unit: Unit, output: Output) -> int:
    """Writes a unit and its report; returns its number of records, the quarantined ones included."""
    made = unit.write(output)
    reports.store(output.artifact, unit.name, made)
    return sum(report.records + len(report.quarantined) for report in made)


def divide_all(items: Sequence[FilesUnit | RowsFile], output: Output) -> list[Unit]:
    """Returns the work units of all elements of the work list; files are divided on all cores of this machine."""
    with ThreadPoolExecutor(_CORES) as threads:
        return [unit for found in threads.map(lambda item: units_of(item, output), items) for unit in found]


def write_all(units: Sequence[Unit], output: Output, done: Callable[[int], None]) -> None:
    """Writes units on all cores of this machine; calls `done` with the records of each.

    Rows and remote files are written by threads: Arrow, TensorFlow and waiting for the network release Python's lock.
    Local files are not: reading, checking and writing them is half Python, and on images of 100 KB two threads took
    longer than one. Many files are written by this process and worker processes, few by one thread.
    """
    if isinstance(units[0], RowsUnit) or not isinstance(units[0].home, Path):
        _write_concurrently(_CORES, lambda unit: write(unit, output), units, done)
    elif not _is_long(units):
        _write_concurrently(1, lambda unit: write(unit, output), units, done)
    else:
        _write_in_workers(units, output.plain(), done)


def _write_in_workers(units: Sequence[Unit], output: Output, done: Callable[[int], None]) -> None:
    from components.native.check import checker

    free = threading.Lock()  # this process has imported everything: it writes one unit at a time while workers start
    with Pool(checker.environment()) as pool:
        pool.start(_CORES - 1)

        def write_one(unit: Unit) -> int:
            if free.acquire(blocking=False):
                try:
                    return write(unit, output)
                finally:
                    free.release()
            with pool.lease() as worker:
                return sum(worker.call(f"{__name__}:write_here", unit, output))

        _write_concurrently(_CORES, write_one, units, done, pool.kill)


def write_here(unit: Unit, output: Output) -> Iterator[int]:
    """What a worker process runs: `write` as a generator."""
    yield write(unit, output)


def _write_concurrently(
    count: int,
    write_one: Callable[[Unit], int],
    units: Sequence[Unit],
    done: Callable[[int], None],
    interrupt: Callable[[], None] = lambda: None,
) -> None:
    """Writes units in `count` threads; the first error cancels the rest, interrupts what runs, and is raised."""
    with ThreadPoolExecutor(count) as threads:
        running = [threads.submit(write_one, unit) for unit in units]
        try:
            for finished in as_completed(running):
                done(finished.result())
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            interrupt()
            raise


def _is_long(units: Sequence[Unit]) -> bool:
    """Whether these files take long enough to start worker processes."""
    listed = [unit for unit in units if isinstance(unit, FilesUnit)]
    return sum(len(unit.numbers) for unit in listed) >= _MANY_FILES or sum(unit.bytes for unit in listed) >= _MANY_BYTES


def places_of(item: FilesUnit | RowsFile) -> FilesUnit | RowsFile:
    """Returns an element of the work list that reads places and classes instead of writing shards."""
    if isinstance(item, RowsFile):
        return replace(item, kind=PlacesUnit)
    return FilePlacesUnit(item.shard, item.home, item.source, item.numbers, item.bytes)


def of_files(span: "SpanFiles", settings: "Ingest", artifact: "Location") -> list[FilesUnit]:
    """Returns the work units of one span of files that are records, and stores the list of each.

    Every n-th file of the listing is in one unit, so each unit has its share of every class: classes are listed one
    after the other, and the input pipeline mixes shards, but not what is far apart in one.
    """
    listed = span.listing.files
    count = _unit_count(len(listed), span.listing.size, settings)

    def unit(number: int) -> FilesUnit:
        mine = listed.every(number, count)
        shard = shards.numbered(number, count, span.span.name)
        reports.store_files(artifact, shard, mine)
        numbers = range(number, len(listed), count)
        return FilesUnit(shard, span.located.home, span.located.source, numbers, sum(mine.sizes))

    return transfers.each(unit, range(count), 1 if isinstance(artifact, Path) else _LISTS)


def _unit_count(files: int, size: int, settings: "Ingest") -> int:
    by_size = -(-size // (settings.shard_mb << 20))
    return max(1, min(files, max(by_size, -(-files // _MOST_FILES), settings.min_shards)))


def of_rows(span: "SpanFiles", settings: "Ingest") -> list[RowsFile]:
    """Returns the files of one span of rows, to be divided into ranges of `shard_mb`, at least `min_shards` of them."""
    target = _range_bytes(bytes_of_rows(span), span.listing.size, settings)
    names = span.located.files
    numbers = [f"f{number:05d}" for number in range(len(names))] if len(names) > 1 else [""]
    return [
        RowsFile(name, span.located.home, f"{span.span.name}-{number}".strip("-"), target)
        for name, number in zip(names, numbers, strict=True)
    ]


def bytes_of_rows(span: "SpanFiles") -> int:
    """Returns the bytes of the files of rows, without those that rows refer to."""
    names = set(span.located.files)
    return sum(item.size for item in span.listing.files if item.file.path in names)


def _range_bytes(rows: int, everything: int, settings: "Ingest") -> int:
    """Returns the bytes of rows per range; images that rows refer to count as part of its size."""
    heavier = max(1.0, everything / max(1, rows))
    by_size = int((settings.shard_mb << 20) / heavier)
    by_count = -(-rows // settings.min_shards)
    return max(int(_MIN_RANGE / heavier), 1, min(by_size, by_count))
