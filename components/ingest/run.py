"""Raw data to sharded TFRecords on Beam: link what an earlier ingest has read, write the rest, build the manifest.

survey ─► spans ─┬─ unchanged since an earlier ingest ─► its shards are linked ───────────────────┐
                 └─ work list ─► Beam: divide ─► distribute ─► write ─► shards and reports ───────┴─► manifest,
                                                                                          quarantine, schema
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.runners.direct.direct_runner import DirectRunner

from components import beam_workers, progress
from components.errors import BadInput
from components.ingest import units
from components.ingest.close import duplicates, manifest, reports, reuse
from components.ingest.survey import identity, schema
from components.ingest.survey.survey import SpanFiles, Survey, Table
from components.ingest.units import FilesUnit, Output, RowsFile, Unit
from components.ingest.write import fingerprints, labels, strata
from components.ingest.write.report import ShardReport
from components.ingest.write.strata import Strata
from components.progress import Progress
from components.records.manifest import Manifest
from components.storage import durable

if TYPE_CHECKING:
    from components.storage.location import Location


@dataclass(frozen=True)
class IngestJob:
    """What to ingest, and where to."""

    found: Survey
    output: Output
    quarantine_list: Path
    earlier: "Location | None" = None  # an artifact of an earlier ingest, or the folder of all of them


def run(job: IngestJob, make_pipeline: Callable[[], beam.Pipeline], survey_again: Callable[[], Survey]) -> Manifest:
    """Ingests the data and returns its manifest."""
    job.quarantine_list.unlink(missing_ok=True)  # of an earlier attempt
    durable.remove(job.output.artifact / reports.FOLDER)
    job = replace(job, output=replace(job.output, table=job.found.table))
    decided = _stratify(job, make_pipeline) if job.output.settings.splits.stratify else None
    work = [_work_of(job, span, decided) for span in job.found.spans]
    todo = [item for each in work for item in each.todo]
    if todo:
        _write(job, todo, make_pipeline)
    found = [report for each in work for report in _collect(job.output.artifact, each)]
    for folder in (reports.FOLDER, strata.FOLDER):
        durable.remove(job.output.artifact / folder)
    # A file that is a record was compared with the survey when it was read; a range of rows was not.
    table = job.found.table
    if table is not None and survey_again().digest != job.found.digest:
        raise BadInput(f"{job.found.data}: changed while it was being ingested; run again when nothing writes to it")
    return _close(job, found) if table is None else _close_rows(job, table, found)


@dataclass(frozen=True)
class _SpanWork:
    """The work for one span."""

    span: SpanFiles
    key: str  # decides whether a later ingest can reuse the span; empty if the data has no spans
    reused: Sequence[ShardReport] | None  # of shards that were linked
    todo: Sequence[FilesUnit | RowsFile]


def _stratify(job: IngestJob, make_pipeline: Callable[[], beam.Pipeline]) -> Strata:
    """Returns where each class is divided, over all spans; this reads rows a second time."""
    found, output = job.found, job.output
    if found.table is None:
        return strata.decide(strata.of_files(found.listing.files, output.settings.splits), output.settings.splits)
    todo = [file for span in found.spans for file in units.of_rows(span, output.settings, units.PlacesUnit)]
    _write(job, todo, make_pipeline)
    places = strata.collect(output.artifact, _names(output.artifact, todo))
    decided = strata.decide(places, output.settings.splits)
    decided.save(output.artifact)
    return decided


def _work_of(job: IngestJob, span: SpanFiles, decided: Strata | None) -> _SpanWork:
    table, settings = job.found.table, job.output.settings
    key = reuse.key_of(span, table, settings, decided.digest if decided else "") if span.span.name else ""
    reused = reuse.link_shards(span, key, job.earlier, job.output.artifact) if key and job.earlier else None
    work = units.of_span(span, table is not None, settings, decided) if reused is None else ()
    return _SpanWork(span, key, reused, work)


def _write(job: IngestJob, todo: Sequence[FilesUnit | RowsFile], make_pipeline: Callable[[], beam.Pipeline]) -> None:
    _progress.start(len(job.found.listing.files) if job.found.table is None else 0)
    pipeline = make_pipeline()
    if beam_workers.runs_here(pipeline):
        # Beam would run the units one after another in this process, and pickle them several times before: a third
        # of the whole ingest for small files.
        units.write_all(units.divide_all(todo, job.output), job.output, _progress.add)
        return
    beam_workers.prepare()
    output = job.output.for_workers()
    with pipeline:
        divided = pipeline | "WorkList" >> beam.Create(todo) | "Divide" >> beam.ParDo(_Divide(output))
        # The units of one file are elements that cross a shuffle, so any worker can write them.
        written = divided | "Distribute" >> beam.Reshuffle() | "WriteShards" >> beam.ParDo(_WriteUnit(output))
        if not isinstance(pipeline.runner, DirectRunner):
            # An engine's metrics show what crosses a shuffle: so they show how many units are written.
            _ = written | "Written" >> beam.Reshuffle() | "Count" >> beam.ParDo(_CountRecords())


class _Divide(beam.DoFn):
    """Divides files of rows into work units; other elements are work units already."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def process(self, item: FilesUnit | RowsFile) -> list[Any]:
        return list(units.units_of(item, self._output))


class _WriteUnit(beam.DoFn):
    """Writes work units; what they did is in their reports."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def process(self, unit: Unit) -> tuple[int]:
        return (units.write(unit, self._output),)


class _CountRecords(beam.DoFn):
    """Adds up the records of the written units in a metric of the job."""

    def __init__(self) -> None:
        self._records = beam.metrics.Metrics.counter("ingest", "records")

    def process(self, records: int) -> tuple[()]:
        self._records.inc(records)
        return ()


def _collect(artifact: "Location", work: _SpanWork) -> list[ShardReport]:
    """Returns the reports of one span, with paths relative to all of the data."""
    found = reports.collect(artifact, _names(artifact, work.todo)) if work.reused is None else work.reused
    if work.key:
        reuse.store(artifact, work.span, work.key, found)
    return [_with_prefix(report, work.span.prefix) for report in found]


def _names(artifact: "Location", todo: Sequence[FilesUnit | RowsFile]) -> list[str]:
    """Returns the names of all work units that must have been written."""
    files = [item for item in todo if isinstance(item, RowsFile)]
    ranges = reports.divisions(artifact, {file.number: f"{file.home}/{file.path}" for file in files})
    of_files = [unit.name for file, found in zip(files, ranges, strict=True) for unit in file.units_of(found)]
    return [*(item.name for item in todo if isinstance(item, FilesUnit)), *of_files]


def _with_prefix(report: ShardReport, prefix: str) -> ShardReport:
    return replace(report, quarantined=tuple(replace(bad, path=prefix + bad.path) for bad in report.quarantined))


def _close(job: IngestJob, found: Sequence[ShardReport], warnings: Sequence[str] = ()) -> Manifest:
    survey, output = job.found, job.output
    return manifest.close(
        output.artifact, survey.listing, found, output.settings, job.quarantine_list, survey.table, warnings
    )


def _close_rows(job: IngestJob, table: Table, found: Sequence[ShardReport]) -> Manifest:
    """Builds the manifest of rows, with warnings about duplicates, and writes the inferred schema."""
    artifact = job.output.artifact
    repeated = duplicates.find(artifact, [report.name for report in found if report.name])
    if not job.found.spans[0].span.name:
        durable.remove(artifact / fingerprints.FOLDER)  # only spans are reused, and their fingerprints with them
    same = repeated.warnings(identity.left_out(table.schema, table.label))
    schema.write(artifact / "schema.pbtxt", table.schema, table.label, table.images)
    return _close(job, found, [*table.warnings, *_empty_texts(found), *labels.warnings(found), *same])


def _empty_texts(found: Sequence[ShardReport]) -> list[str]:
    count = sum(report.empty_texts for report in found)
    return [f"{count:,} records have an empty or missing text; they are kept"] if count else []


class _RecordCounter:
    """Records written by this process: all of them, unless Beam runs worker processes."""

    def __init__(self) -> None:
        self.start(0)

    def start(self, total: int) -> None:
        self.done, self.total = 0, total

    def add(self, records: int) -> None:
        self.done += records
        progress.report(Progress(self.done, self.total or None))


_progress = _RecordCounter()
