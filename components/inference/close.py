"""Closes a batch inference: ledger, quarantine list, final names, and the manifest as the last file.

.unfinished/3f…/files/00000-00003 ─► predictions-00003-of-00012.parquet
reports ─► ledger, max_bad_fraction, metrics ─► quarantine.jsonl ─► manifest.json
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from components.errors import LedgerMismatch
from components.inference import metrics
from components.inference.units import WORK, UnitReport
from components.ingest.close.manifest import check_budget
from components.records import ledger
from components.records.ledger import Entry
from components.records.manifest import MANIFEST, QUARANTINE, write_quarantine
from components.records.quarantine import Quarantined
from components.storage import durable, paths, transfers

if TYPE_CHECKING:
    from components.inference.data import Data
    from components.inference.find_model import ModelFolder
    from components.inference.write import Format
    from components.settings.ingest import Ingest
    from components.storage.location import Location

_COPIES = 8  # on a store, at once
_DIGITS = 5  # at least, of the numbers in names of files


@dataclass(frozen=True)
class PredictionFile:
    """One file of predictions."""

    name: str
    records: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Predicted:
    """The manifest of predictions."""

    data: str
    source: str
    model: Mapping[str, str]  # path, version, digest
    kind: str  # of the prediction: class or quantity
    classes: tuple[str, ...]  # in the order of the probabilities
    records: int  # read
    predicted: int
    quarantined: int
    labelled: int  # records whose label the model knows
    unknown_labels: int  # records with another label
    ignored: int  # files that are no data
    metrics: Mapping[str, float]
    format: str
    files: tuple[PredictionFile, ...]


def close(
    out: "Location",
    work: "Location",
    data: "Data",
    found: "ModelFolder",
    reports: Sequence[UnitReport],
    settings: "Ingest",
    form: "Format",
    quarantine_list: Path,
    require: Callable[[], None] = lambda: None,
) -> Predicted:
    """Checks the reports, gives the files their final names, and writes the manifest.

    Args:
        out: folder of the predictions.
        work: folder below it that the work units have filled.
        data: what was predicted.
        found: the model.
        reports: of all work units, in the order of the data.
        settings: of ingest.
        form: format of the predictions.
        quarantine_list: a second copy of the quarantine list, which stays if too many records were quarantined.
        require: raises an error if this process may no longer write to a store: another one may write there now.
    """
    built = _manifest(data, found, reports, form)
    quarantined = _quarantined(data, reports)
    write_quarantine(quarantine_list, quarantined)
    check_budget(quarantined, built.records, settings, quarantine_list)
    ledger.check(Entry("predict", built.records, built.predicted, built.quarantined))
    _check_files(work, reports)
    require()
    _rename(work, out, [(report.name, file.name) for report, file in zip(reports, built.files, strict=True)])
    write_quarantine(out / QUARANTINE, quarantined)
    durable.remove(out / WORK)
    durable.fsync_tree(out)
    require()
    durable.write_bytes(out / MANIFEST, orjson.dumps(asdict(built), option=orjson.OPT_INDENT_2))
    return built


def _manifest(data: "Data", found: "ModelFolder", reports: Sequence[UnitReport], form: "Format") -> Predicted:
    sums = metrics.total(report.sums for report in reports)
    count = len(reports)
    width = max(_DIGITS, len(str(count)))  # names sort as numbers do
    return Predicted(
        data=data.data,
        source=data.source,
        model={"path": str(found.path), "version": found.version, "digest": found.digest},
        kind=found.reading.kind,
        classes=found.reading.classes,
        records=(sum(report.read for report in reports) if data.columns else data.files) + len(data.quarantined),
        predicted=sum(report.predicted for report in reports),
        quarantined=sum(len(report.quarantined) for report in reports) + len(data.quarantined),
        labelled=sums.labelled,
        unknown_labels=sums.unknown,
        ignored=data.ignored,
        metrics=metrics.metrics(sums, found.reading.classes),
        format=form,
        files=tuple(
            PredictionFile(
                f"predictions-{number:0{width}d}-of-{count:0{width}d}.{form}",
                report.predicted,
                report.bytes,
                report.checksum,
            )
            for number, report in enumerate(reports)
        ),
    )


def _quarantined(data: "Data", reports: Sequence[UnitReport]) -> list[Quarantined]:
    every = [*data.quarantined, *(bad for report in reports for bad in report.quarantined)]
    return sorted(every, key=lambda bad: bad.path)


def _check_files(work: "Location", reports: Sequence[UnitReport]) -> None:
    """Compares the files that workers wrote with their reports: a killed worker may have left others, or none."""
    found = {name: stat.st_size for name, stat in paths.files_below(work / "files").items()}
    for report in reports:
        if found.get(report.name) != report.bytes:
            raise LedgerMismatch(
                f"{work}: work unit {report.name} has {found.get(report.name)} bytes, {report.bytes:,} were reported; "
                "nothing was published: run again"
            )


def _rename(work: "Location", out: "Location", names: Sequence[tuple[str, str]]) -> None:
    """Gives each file its final name; on a store by a copy, where the manifest decides what is a result."""
    if isinstance(work, Path) or isinstance(out, Path):
        for unit, name in names:
            Path(str(work), "files", unit).rename(Path(str(out), name))
        return
    transfers.each(lambda pair: (work / "files" / pair[0]).copy_to(out / pair[1]), names, _COPIES)
