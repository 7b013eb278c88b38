"""Rows to sharded TFRecords on Beam: plan ranges, write each, add the reports up.

files ─► manifest ─► ranges ─► Beam: one element a range ─► reports ─► account, schema
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import pyarrow as pa

from components import refs
from components.errors import BadInput
from components.hashing import HashCache
from components.ingest import account, manifest, reports, schemas
from components.ingest.rows import Range, RowSource
from components.ingest.sources import Found, SourceFile
from components.ingest.write_rows import write_range
from components.settings import Ingest

_LEAST_RANGE = 256 << 10  # bytes: below this a range costs more to start than to read


@dataclass(frozen=True)
class RowsJob:
    """What is to be read, how, and where it goes."""

    data: Path
    files: tuple[str, ...]  # relative to data
    source: str  # reference of a RowSource
    label: str
    settings: Ingest
    artifact: Path
    quarantine_list: Path


def run(job: RowsJob, make_pipeline: Callable[[], beam.Pipeline], cache: HashCache) -> account.Account:
    """Ingests the files and returns the account; nothing is dropped in silence."""
    source: RowSource = refs.load(job.source)
    found = _take_manifest(job, cache)
    schema = common_schema(source, job)
    _check_label(job, schema)
    ranges = plan(source, found, job)
    units = [_unit(number) for number in range(len(ranges))]
    with make_pipeline() as pipeline:
        _ = (
            pipeline
            | "PlanRanges" >> beam.Create(list(enumerate(ranges)), reshuffle=True)
            | "WriteRanges" >> beam.ParDo(_WriteRange(job, schema, len(ranges)))
        )
    if _take_manifest(job, cache).digest != found.digest:
        raise BadInput(f"{job.data}: changed while it was being ingested; run again when nothing writes to it")
    written = reports.collect(job.artifact, units)
    rows = sum(report.read for report in written)
    made = account.close_books(job.artifact, found, written, job.settings, job.quarantine_list, rows)
    schemas.write(job.artifact / "schema.pbtxt", schema, job.label)
    return made


def _take_manifest(job: RowsJob, cache: HashCache) -> manifest.Manifest:
    return manifest.hash_found(Found(tuple(SourceFile(name, "") for name in job.files), ()), job.data, cache)


def plan(source: RowSource, found: manifest.Manifest, job: RowsJob) -> list[Range]:
    """Cuts the files into ranges: as many as the bytes want, at least `min_shards` of them if they can be had."""
    total = sum(item.size for item in found.files)
    by_count = -(-total // job.settings.min_shards)
    target = max(_LEAST_RANGE, min(job.settings.shard_mb << 20, by_count))
    return [part for item in found.files for part in source.divide(job.data / item.file.path, item.file.path, target)]


def common_schema(source: RowSource, job: RowsJob) -> pa.Schema:
    """Returns the columns of the first file; every other file must have the same names."""
    first = source.schema(job.data / job.files[0])
    for name in job.files[1:]:
        other = source.schema(job.data / name)
        if set(other.names) != set(first.names):
            raise BadInput(
                f"{job.data / name}: its columns are not those of {job.files[0]}: "
                f"{_differences(first.names, other.names)}"
            )
    return first


class _WriteRange(beam.DoFn):
    def __init__(self, job: RowsJob, schema: pa.Schema, of: int) -> None:
        self._job, self._schema, self._of = job, schema, of

    def process(self, numbered: tuple[int, Range]) -> tuple[()]:
        number, part = numbered
        job = self._job
        written = write_range(
            part, f"{number:05d}-of-{self._of:05d}", source=refs.load(job.source), schema=self._schema, data=job.data,
            artifact=job.artifact, settings=job.settings, label=job.label,
        )  # fmt: skip
        reports.store(job.artifact, _unit(number), written)
        return ()  # what there is to tell is in the reports


def _unit(number: int) -> str:
    return f"range-{number:05d}"


def _check_label(job: RowsJob, schema: pa.Schema) -> None:
    if job.label and job.label not in schema.names:
        raise BadInput(
            f"{job.data}: no column {job.label!r} to take the label from; columns: {', '.join(schema.names)}"
        )


def _differences(wanted: Sequence[str], found: Sequence[str]) -> str:
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    return "; ".join(
        [*([f"missing {', '.join(missing)}"] if missing else []), *([f"extra {', '.join(extra)}"] if extra else [])]
    )
