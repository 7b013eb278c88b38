"""Raw data to sharded TFRecords on Beam: link what an earlier ingest has read, write the rest, build the manifest.

survey ─► spans ─┬─ unchanged since an earlier ingest ─► its shards are linked ───────────────────┐
                 └─ work list ─► Beam: divide ─► distribute ─► write ─► shards and reports ───────┴─► manifest,
                                                                  └─► compare: duplicates             quarantine,
                                                                                                      schema
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import apache_beam as beam
from apache_beam.runners.direct.direct_runner import DirectRunner

from components import beam_workers, progress
from components.beam_workers import CountRecords
from components.errors import BadInput
from components.ingest import units
from components.ingest.close import compare, compare_on_beam, duplicates, manifest, near_duplicates, reports, reuse
from components.ingest.close.compare import Compared
from components.ingest.close.manifest import SpanRecords
from components.ingest.close.near_duplicates import FoundImage, NearFound
from components.ingest.survey import identity, schema
from components.ingest.survey.survey import SpanFiles, Survey
from components.ingest.units import FilesUnit, Output, RowsFile
from components.ingest.write import labels, strata
from components.ingest.write.report import ShardReport
from components.ingest.write.shards import FINGERPRINTS
from components.ingest.write.strata import Strata
from components.progress import Progress
from components.records.manifest import Manifest
from components.storage import durable

if TYPE_CHECKING:
    from components.storage.location import Location

_ROW_BYTES = 64  # of a short row of a table: a worker must be able to hold a bucket, too many are cheap
_TodoOf: TypeAlias = Callable[[int], Sequence[FilesUnit | RowsFile]]  # work list of a span, by its number
_BUCKET_RECORDS, _MAX_BUCKETS = 1 << 20, 4096  # that are compared by one worker at once: 16 MB of fingerprints


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
    artifact = job.output.artifact
    durable.remove(artifact / reports.FOLDER)
    job = replace(job, output=replace(job.output, table=job.found.table))
    todo_of = cache(lambda number: _todo(job, job.found.spans[number]))  # lists of files are written once
    decided = _stratify(job, todo_of, make_pipeline) if job.output.settings.splits.stratify else None
    work = [_work_of(job, number, decided, todo_of) for number in range(len(job.found.spans))]
    todo = [item for each in work for item in each.todo]
    compared = _write(job, todo, make_pipeline, [r for each in work for r in each.reused or ()]) if todo else False
    reported = [_collect(artifact, each) for each in work]
    found = [report for each in reported for report in each]
    manifest.check_failures(found)
    same = compare.collect(artifact, found) if compared else compare.here(artifact, found, job.output.settings)
    for folder in (reports.FOLDER, strata.FOLDER):
        durable.remove(artifact / folder)
    # A file that is a record was compared with the survey when it was read; a range of rows was not.
    table = job.found.table
    if table is not None and survey_again().digest != job.found.digest:
        raise BadInput(f"{job.found.data}: changed while it was being ingested; run again when nothing writes to it")
    new = [
        _records_of(*each, in_rows=table is not None)
        for each in zip(work, reported, strict=True)
        if _is_new(job, each[0])
    ]
    return _close(job, found, same, new)


@dataclass(frozen=True)
class _SpanWork:
    """The work for one span."""

    span: SpanFiles
    key: str  # decides whether a later ingest can reuse the span; empty if the data has no spans
    reused: Sequence[ShardReport] | None  # of shards that were linked
    todo: Sequence[FilesUnit | RowsFile]


def _stratify(job: IngestJob, todo_of: _TodoOf, make_pipeline: Callable[[], beam.Pipeline]) -> Strata:
    """Returns where each class is divided, over all spans; this reads rows a second time."""
    output = job.output
    todo = [units.places_of(item) for number in range(len(job.found.spans)) for item in todo_of(number)]
    _write(job, todo, make_pipeline)
    names = _names(output.artifact, todo)
    manifest.check_failures(reports.collect(output.artifact, names))
    decided = strata.decide(strata.collect(output.artifact, names), output.settings.splits)
    decided.save(output.artifact)
    return decided


def _todo(job: IngestJob, span: SpanFiles) -> Sequence[FilesUnit | RowsFile]:
    """Returns the work list of one span; work units read the strata themselves."""
    settings = job.output.settings
    if job.found.table is not None:
        return units.of_rows(span, settings)
    return units.of_files(span, settings, job.output.artifact)


def _work_of(job: IngestJob, number: int, decided: Strata | None, todo_of: _TodoOf) -> _SpanWork:
    span, table, settings = job.found.spans[number], job.found.table, job.output.settings
    key = reuse.key_of(span, table, settings, decided.digest if decided else "") if span.span.name else ""
    reused = reuse.link_shards(span, key, job.earlier, job.output.artifact) if key and job.earlier else None
    return _SpanWork(span, key, reused, todo_of(number) if reused is None else ())


def _write(
    job: IngestJob,
    todo: Sequence[FilesUnit | RowsFile],
    make_pipeline: Callable[[], beam.Pipeline],
    reused: Sequence[ShardReport] | None = None,
) -> bool:
    """Writes all work units; returns whether workers have compared the records, too.

    Args:
        job: of the ingest.
        todo: the work list.
        make_pipeline: makes the Beam pipeline.
        reused: reports of the shards of other spans, to be compared with the new ones; None if nothing is compared.
    """
    _progress.start(len(job.found.listing.files) if job.found.table is None else 0)
    pipeline = make_pipeline()
    if beam_workers.runs_here(pipeline):
        # Beam would run the units one after another in this process, and pickle them several times before: a third
        # of the whole ingest for small files.
        units.write_all(units.divide_all(todo, job.output), job.output, _progress.add)
        return False
    beam_workers.prepare()
    output = job.output.for_workers()
    with pipeline:
        divided = pipeline | "WorkList" >> beam.Create(todo) | "Divide" >> beam.FlatMap(_units_of, output)
        # The units of one file are elements that cross a shuffle, so any worker can write them.
        written = divided | "Distribute" >> beam.Reshuffle() | "WriteShards" >> beam.Map(_write_unit, output)
        if not isinstance(pipeline.runner, DirectRunner):
            # An engine's metrics show what crosses a shuffle: so they show how many units are written.
            records = written | "Records" >> beam.Values() | "Written" >> beam.Reshuffle()
            _ = records | "Count" >> beam.ParDo(CountRecords("ingest"))
        if reused is not None:
            compare_on_beam.compare(written, output.artifact, reused, output.settings, _buckets(job.found))
    return reused is not None


def _buckets(found: Survey) -> int:
    """Returns into how many buckets records are divided to be compared; rows are counted by the bytes of files."""
    if found.table is None:
        records = len(found.listing.files)
    else:
        records = sum(map(units.bytes_of_rows, found.spans)) // _ROW_BYTES
    return max(1, min(-(-records // _BUCKET_RECORDS), _MAX_BUCKETS))


def _units_of(item: Any, output: Output) -> list[Any]:  # Beam 2.62 cannot compare unions of types
    return list(units.units_of(item, output))


def _write_unit(unit: Any, output: Output) -> tuple[str, int]:
    """Writes a work unit; what it did is in its report."""
    return unit.name, units.write(unit, output)


def _collect(artifact: "Location", work: _SpanWork) -> list[ShardReport]:
    """Returns the reports of one span, with paths relative to all of the data."""
    found = reports.collect(artifact, _names(artifact, work.todo)) if work.reused is None else work.reused
    if work.key:
        reuse.store(artifact, work.span, work.key, found)
    return [_with_prefix(report, work.span.prefix) for report in found]


def _is_new(job: IngestJob, work: _SpanWork) -> bool:
    """Whether no earlier ingest has accepted this content of a span."""
    return bool(work.key) and work.reused is None and not (job.earlier and reuse.has_data(work.span, job.earlier))


def _records_of(work: _SpanWork, reported: Sequence[ShardReport], *, in_rows: bool) -> SpanRecords:
    """Returns how many records of a span were read, and which of them are bad."""
    listing, prefix = work.span.listing, work.span.prefix
    listed = [replace(bad, path=prefix + bad.path) for bad in listing.quarantined]
    return SpanRecords(
        work.span.span.text,
        sum(report.read for report in reported) + len(listed) if in_rows else listing.records,
        [*listed, *(bad for report in reported for bad in report.quarantined)],
    )


def _names(artifact: "Location", todo: Sequence[FilesUnit | RowsFile]) -> list[str]:
    """Returns the names of all work units that must have been written."""
    files = [item for item in todo if isinstance(item, RowsFile)]
    ranges = reports.divisions(artifact, {file.number: f"{file.home}/{file.path}" for file in files})
    of_files = [unit.name for file, found in zip(files, ranges, strict=True) for unit in file.units_of(found)]
    return [*(item.name for item in todo if isinstance(item, FilesUnit)), *of_files]


def _with_prefix(report: ShardReport, prefix: str) -> ShardReport:
    return replace(report, quarantined=tuple(replace(bad, path=prefix + bad.path) for bad in report.quarantined))


def _close(job: IngestJob, found: Sequence[ShardReport], same: Compared, new: Sequence[SpanRecords]) -> Manifest:
    """Builds the manifest, with warnings about duplicates; of rows, writes the inferred schema as well."""
    survey, artifact, settings, table = job.found, job.output.artifact, job.output.settings, job.found.table
    if not survey.spans[0].span.name:
        durable.remove(artifact / FINGERPRINTS)  # only spans are reused, and their fingerprints with them
    if table is None:
        warnings = same.exact.warnings(survey.path_of)
    else:
        warnings = [*table.warnings, *_empty_texts(found), *labels.warnings(found)]
        warnings += same.exact.warnings(duplicates.row_name, identity.left_out(table.schema, table.label))
        schema.write(artifact / "schema.pbtxt", table.schema, table.label, table.images)
    near = near_duplicates.named(same.near, _image_name(survey, same.near))
    every = [*warnings, *(near_duplicates.applies(found, settings) or ())]
    return manifest.close(artifact, survey.listing, found, settings, job.quarantine_list, table, every, near, new)


def _image_name(survey: Survey, near: NearFound) -> Callable[[FoundImage], str]:
    if survey.table is None:
        return lambda image: survey.path_of(image.shard, image.number)
    known = near_duplicates.names_of(survey.listing, near)
    return lambda image: known.get(image.content, "")


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
