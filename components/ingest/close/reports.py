"""Reports of work units, as files beside the shards.

What a Beam runner returns to its caller differs from runner to runner. A folder that all workers share does not, the
shards need one anyway, and a file survives a retried bundle.
"""

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from components.errors import LedgerMismatch
from components.ingest.survey.listed_files import ListedFiles
from components.ingest.write.report import ShardReport
from components.records.quarantine import Quarantined, printable
from components.storage import durable, paths

if TYPE_CHECKING:
    from components.ingest.sources.rows import Range
    from components.storage.location import Location

FOLDER = "reports"
_READS = 8  # requests to a store at once


def store(artifact: "Location", unit: str, reports: Sequence[ShardReport]) -> None:
    """Stores the reports of one work unit; a retried bundle stores the same ones again."""
    content = orjson.dumps([asdict(report) for report in reports], option=orjson.OPT_NON_STR_KEYS)
    # Renamed, so that it is whole or absent, but not synced: after a crash of the machine nothing reads it.
    # Private, because it holds the quarantined rows.
    durable.write_bytes(artifact / FOLDER / _name_of(unit), content, private=True, sync=False)


def store_files(artifact: "Location", unit: str, files: ListedFiles) -> None:
    """Stores the files of one work unit, which its worker reads: in the unit itself they could fill a Beam graph."""
    durable.write_bytes(artifact / FOLDER / f"list-{unit}", files.to_bytes(), private=True, sync=False)


def files_of(artifact: "Location", unit: str) -> ListedFiles:
    """Returns the files of one work unit."""
    return ListedFiles.from_bytes((artifact / FOLDER / f"list-{unit}").read_bytes())


def store_division(artifact: "Location", file: str, ranges: "Sequence[Range]") -> None:
    """Stores the ranges of one file of rows: for each of them there must be a report at the end."""
    content = orjson.dumps([[each.path, each.start, each.stop, each.first, each.size] for each in ranges])
    durable.write_bytes(artifact / FOLDER / _division_of(file), content, private=True, sync=False)


def division(artifact: "Location", file: str) -> "list[Range] | None":
    """Returns the ranges of one file of rows; None if it was not divided yet."""
    from components.ingest.sources.rows import Range

    try:
        stored = (artifact / FOLDER / _division_of(file)).read_bytes()
    except FileNotFoundError:
        return None
    return [Range(*row) for row in orjson.loads(stored)]


def divisions(artifact: "Location", files: Mapping[str, str]) -> "list[list[Range]]":
    """Returns the ranges of all files of rows, by number and path; raises LedgerMismatch if one was not divided."""
    with ThreadPoolExecutor(1 if isinstance(artifact, Path) else _READS) as pool:
        found = list(pool.map(lambda file: division(artifact, file), files))
    missing = [path for path, ranges in zip(files.values(), found, strict=True) if ranges is None]
    if missing:
        raise LedgerMismatch(f"{len(missing)} of {len(files)} files were not read, such as {printable(missing[0])}")
    return [ranges for ranges in found if ranges is not None]


def collect(artifact: "Location", units: Sequence[str]) -> list[ShardReport]:
    """Returns the reports of all work units; raises LedgerMismatch if one has none."""
    written = paths.files_below(artifact / FOLDER)
    missing = [unit for unit in units if _name_of(unit) not in written]
    if missing:
        raise LedgerMismatch(f"{len(missing)} of {len(units)} work units were not written, such as {missing[0]}")
    with ThreadPoolExecutor(1 if isinstance(artifact, Path) else _READS) as pool:
        return [report for read in pool.map(lambda unit: of_unit(artifact, unit), units) for report in read]


def _division_of(file: str) -> str:
    return f"division-{file}.json"


def _name_of(unit: str) -> str:
    return unit.replace("/", "_") + ".json"


def of_unit(artifact: "Location", unit: str) -> list[ShardReport]:
    """Returns the reports of one work unit."""
    return [from_json(stored) for stored in orjson.loads((artifact / FOLDER / _name_of(unit)).read_bytes())]


def from_json(stored: dict[str, Any]) -> ShardReport:
    """Returns a report from its JSON form."""
    stored["classes"] = {sys.intern(name): count for name, count in stored["classes"].items()}  # in all reports, once
    stored["sides"] = {int(side): count for side, count in stored["sides"].items()}
    stored["quarantined"] = tuple(Quarantined(**row) for row in stored["quarantined"])
    return ShardReport(**stored)
