"""Raw data to sharded TFRecords on Beam: take over what was read before, write the rest, close the books.

survey ─► parts ─┬─ read before, unchanged ─► linked ────────────────┐
                 └─ units ─► Beam: one element a unit ─► reports ────┴─► account, quarantine, schema
"""

import gc
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.direct.direct_runner import DirectRunner

from components import beam_workers, progress
from components.errors import BadInput
from components.ingest.close import duplicates, manifest, reports
from components.ingest.close import reuse as earlier
from components.ingest.survey.survey import Part, Survey
from components.ingest.work import crew, plans, units
from components.ingest.work.files_unit import Target
from components.ingest.work.units import Unit
from components.ingest.write.files import ShardReport
from components.records import schema
from components.records.manifest import Manifest

_MANY, _LARGE = 2_000, 64 << 20  # files, or bytes of them, that are worth the start of a process
# What Beam and TensorFlow make on import is some hundred thousand objects, which stay. To look for garbage among them
# took a quarter of a second of every ingest.
gc.freeze()


@dataclass(frozen=True)
class Job:
    """What is to be done with what was surveyed."""

    found: Survey
    target: Target
    quarantine_list: Path
    earlier: Path | None = None  # an artifact of an earlier ingest, or the folder of all of them


def run(job: Job, make_pipeline: Callable[[], beam.Pipeline], look_again: Callable[[], Survey]) -> Manifest:
    """Ingests the data and returns the account; nothing is dropped in silence."""
    written = _write(job, make_pipeline)
    # A file that is a record is compared with the manifest when it is read; a range of one is not.
    if job.found.table is not None and look_again().digest != job.found.digest:
        raise BadInput(f"{job.found.data}: changed while it was being ingested; run again when nothing writes to it")
    told = [_prefixed(report, part) for part, made in zip(job.found.parts, written, strict=True) for report in made]
    target = job.target
    if job.found.table is None:
        return manifest.close(target.artifact, job.found.manifest, told, target.settings, job.quarantine_list)
    return _close_rows(job, told)


def _close_rows(job: Job, told: Sequence[ShardReport]) -> Manifest:
    """Closes the books on rows: what is twice is told, and what the columns are."""
    found, target, table = job.found, job.target, job.found.table
    twice = duplicates.find(target.artifact, [report.name for report in told if report.name])
    if not found.parts[0].span.name:
        duplicates.clear(target.artifact)  # else the next ingest takes them over with their shards
    made = manifest.close(
        target.artifact, found.manifest, told, target.settings, job.quarantine_list, _rows_in(found, told),
        twice.warnings(),
    )  # fmt: skip
    if table is not None:
        schema.write(target.artifact / "schema.pbtxt", table.schema, table.label, table.images)
    return made


def _write(job: Job, make_pipeline: Callable[[], beam.Pipeline]) -> list[Sequence[ShardReport]]:
    """Returns the reports of each part, taken over or made."""
    artifact = job.target.artifact
    with crew.started(_is_long(job.found)):
        parts = [_plan(job, part) for part in job.found.parts]
        todo = [unit.sent(artifact) for plan in parts for unit in plan.units]
        if todo:
            _write_units(job, todo, make_pipeline)
    made = [
        plan.known if plan.known is not None else reports.collect(artifact, [unit.name for unit in plan.units])
        for plan in parts
    ]
    reports.clear(artifact)
    plans.clear(artifact)
    for part, plan, written in zip(job.found.parts, parts, made, strict=True):
        if plan.key:
            earlier.keep(artifact, part, plan.key, written)
    return made


def _write_units(job: Job, todo: Sequence[Unit], make_pipeline: Callable[[], beam.Pipeline]) -> None:
    beam_workers.watch()
    beam_workers.end_soon()
    _progress.start(len(job.found.manifest.files) if job.found.table is None else 0)
    with make_pipeline() as pipeline:
        if _is_alone(pipeline):  # the units need not be dealt out, which takes a while
            _ = pipeline | beam.Impulse() | "WriteUnits" >> beam.ParDo(_WriteAll(job.target, todo))
        else:
            _ = pipeline | "PlanUnits" >> beam.Create(todo) | "WriteUnits" >> beam.ParDo(_WriteUnit(job.target))


def _is_alone(pipeline: beam.Pipeline) -> bool:
    """Whether all is done in this process."""
    workers = pipeline.options.view_as(DirectOptions).direct_num_workers
    return isinstance(pipeline.runner, DirectRunner) and workers == 1


def _is_long(found: Survey) -> bool:
    """Whether files of this machine will take long enough to start helpers."""
    if found.table is not None or not isinstance(found.parts[0].located.home, Path):
        return False
    files = found.manifest.files
    return len(files) >= _MANY or sum(item.size for item in files) >= _LARGE


@dataclass(frozen=True)
class _PartPlan:
    key: str  # empty for data that is one whole
    known: Sequence[ShardReport] | None
    units: Sequence[Unit]


def _plan(job: Job, part: Part) -> _PartPlan:
    table, settings = job.found.table, job.target.settings
    key = earlier.key_of(part, table, settings) if part.span.name else ""
    if key and job.earlier is not None:
        known = earlier.take_over(part, key, earlier.artifacts(job.earlier), job.target.artifact)
        if known is not None:
            return _PartPlan(key, known, ())
    return _PartPlan(key, None, units.of_part(part, table, settings))


def _prefixed(report: ShardReport, part: Part) -> ShardReport:
    quarantined = tuple(replace(bad, path=part.prefix + bad.path) for bad in report.quarantined)
    return replace(report, quarantined=quarantined)


def _rows_in(found: Survey, written: Sequence[ShardReport]) -> int:
    return sum(report.read for report in written) + len(found.manifest.refused)


class _WriteUnit(beam.DoFn):
    """Writes units; what there is to tell is in the reports."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def start_bundle(self) -> None:
        self._crew = crew.Crew(self._target)

    def process(self, unit: Unit) -> tuple[()]:
        _progress.add(self._crew.write(unit))
        return ()

    def finish_bundle(self) -> None:
        _progress.add(self._crew.finish())


class _WriteAll(beam.DoFn):
    """Writes all units of a plan in one bundle."""

    def __init__(self, target: Target, units: Sequence[Unit]) -> None:
        # Packed here: Beam packs what it is given several times, and takes ten times as long for each.
        self._packed = pickle.dumps((target, list(units)))

    def process(self, _: bytes) -> tuple[()]:
        target, units = pickle.loads(self._packed)  # noqa: S301 - our own
        some = crew.Crew(target)
        for unit in units:
            _progress.add(some.write(unit))
        _progress.add(some.finish())
        return ()


class _Count:
    """Records seen by this process; all of them with the in-memory runner."""

    def __init__(self) -> None:
        self.start(0)

    def start(self, total: int) -> None:
        self.done, self.total = 0, total

    def add(self, records: int) -> None:
        self.done += records
        progress.report(self.done, self.total or None)


_progress = _Count()
