"""Work units: what one Beam element reads, predicts and writes. The data alone decides about them, never a worker.

    a file of rows ─► divided into ranges, by a worker ─► one work unit per range
    images, texts  ─► so many files after one another ──► one work unit; its list of files travels as a file

A unit is named by the number of its file and of its range, so no worker has to know how many others there are. Its
report, a file too, says what it wrote. The report of a division says which units there must be.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from components.errors import LedgerMismatch
from components.inference import metrics
from components.inference.metrics import MetricSums
from components.records.quarantine import Quarantined
from components.storage import durable, paths, transfers

if TYPE_CHECKING:
    from components.inference.columns import Columns
    from components.inference.data import Data
    from components.inference.write import Format
    from components.ingest.sources.rows import Range
    from components.ingest.survey.detect import Place
    from components.serving.reading import Reading
    from components.settings.ingest import Ingest
    from components.storage.location import Location

WORK = ".unfinished"  # in the folder of the predictions: a folder per attempt, of all that is written before the end
_LEAST_BYTES, _MOST_BYTES = 1 << 20, 128 << 20  # of rows per unit
_LEAST_FILES, _MOST_FILES = 512, 8192  # per unit
_UNITS = 512  # aimed at, between these limits
_READS = 8  # requests to a store at once


@dataclass(frozen=True)
class PredictJob:
    """What every work unit needs to know."""

    model: str  # folder
    digest: str  # of the model
    reading: "Reading"
    settings: "Ingest"
    columns: "Columns | None"  # None: a file is a record
    work: "Location"  # where units write
    form: "Format" = "parquet"


@dataclass(frozen=True)
class RowFile:
    """One file of rows, to be divided."""

    number: int
    home: "Place"
    path: str  # relative to home
    prefix: str  # of the path in predictions
    target: int  # bytes per range


@dataclass(frozen=True)
class RangeUnit:
    """One range of rows."""

    name: str
    home: "Place"
    part: "Range"
    prefix: str


@dataclass(frozen=True)
class PredictFiles:
    """Some files that are one record each; their names are in the list of this number."""

    name: str
    home: "Place"
    prefix: str


Unit = RangeUnit | PredictFiles


@dataclass(frozen=True)
class UnitReport:
    """What a unit did."""

    name: str
    read: int  # records
    predicted: int
    bytes: int
    checksum: str
    quarantined: tuple[Quarantined, ...] = ()
    sums: MetricSums = field(default_factory=MetricSums)


def of_data(data: "Data", work: "Location") -> list[RowFile] | list[PredictFiles]:
    """Returns the files to divide, or the units of files, whose lists it writes."""
    if data.columns is not None:
        return _row_files(data)
    size = max(_LEAST_FILES, min(_MOST_FILES, -(-data.files // _UNITS)))
    units: list[PredictFiles] = []
    for span in data.spans:
        for start in range(0, len(span.names), size):
            unit = PredictFiles(f"{len(units):05d}-00000", span.home, span.prefix)
            listed = [name.encode("utf-8", "surrogateescape").decode("latin-1") for name in span.names[start:][:size]]
            durable.write_bytes(work / "lists" / f"{unit.name}.json", orjson.dumps(listed), sync=False)
            units.append(unit)
    return units


def files_of(unit: PredictFiles, work: "Location") -> list[str]:
    """Returns the names of the files of a unit; names on disk are bytes and need not be UTF-8."""
    listed = orjson.loads((work / "lists" / f"{unit.name}.json").read_bytes())
    return [name.encode("latin-1").decode("utf-8", "surrogateescape") for name in listed]


def _row_files(data: "Data") -> list[RowFile]:
    sizes = [stat.st_size for span in data.spans for stat in paths.stats(span.home, span.names)]
    target = max(_LEAST_BYTES, min(_MOST_BYTES, sum(sizes) // _UNITS))
    named = [(span, name) for span in data.spans for name in span.names]
    return [RowFile(number, span.home, name, span.prefix, target) for number, (span, name) in enumerate(named)]


def divide(file: RowFile, job: PredictJob) -> list[RangeUnit]:
    """Divides a file into ranges, and reports how many there are."""
    assert job.columns is not None  # noqa: S101 - files of rows have columns
    ranges = job.columns.source.divide(file.home / file.path, file.path, file.target)
    content = orjson.dumps({"units": len(ranges)})
    durable.write_bytes(job.work / "divided" / f"{file.number:05d}.json", content, sync=False)
    return [
        RangeUnit(f"{file.number:05d}-{number:05d}", file.home, part, file.prefix) for number, part in enumerate(ranges)
    ]


def expected(todo: Sequence[RowFile] | Sequence[PredictFiles], work: "Location") -> list[str]:
    """Returns the names of all units, in the order of the data."""
    names: list[str] = []
    for each in todo:
        if isinstance(each, PredictFiles):
            names.append(each.name)
        else:
            stored = orjson.loads((work / "divided" / f"{each.number:05d}.json").read_bytes())
            names += [f"{each.number:05d}-{number:05d}" for number in range(stored["units"])]
    return names


def store(work: "Location", report: UnitReport) -> None:
    """Stores the report of a unit; a retried bundle stores the same again. It holds quarantined rows: private."""
    content = orjson.dumps(asdict(report), option=orjson.OPT_NON_STR_KEYS)
    durable.write_bytes(work / "reports" / f"{report.name}.json", content, private=True, sync=False)


def collect(work: "Location", names: Sequence[str]) -> list[UnitReport]:
    """Returns the reports of all units; raises LedgerMismatch if one has none."""
    written = paths.files_below(work / "reports")
    missing = [name for name in names if f"{name}.json" not in written]
    if missing:
        raise LedgerMismatch(
            f"{len(missing)} of {len(names)} work units were not predicted, such as {missing[0]}; nothing was published"
        )
    if isinstance(work, Path):
        return [_read(work, name) for name in names]
    return transfers.each(lambda name: _read(work, name), names, _READS)


def _read(work: "Location", name: str) -> UnitReport:
    stored: dict[str, Any] = orjson.loads((work / "reports" / f"{name}.json").read_bytes())
    stored["quarantined"] = tuple(Quarantined(**row) for row in stored["quarantined"])
    stored["sums"] = metrics.from_json(stored["sums"])
    return UnitReport(**stored)
