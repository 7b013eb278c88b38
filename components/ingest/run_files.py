"""Files to sharded TFRecords on Beam, a record a file: plan shards, write each, close the books."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam

from components import progress, refs
from components.ingest import account, reports, shards
from components.ingest.manifest import Manifest
from components.ingest.write import write_shard
from components.settings import Ingest


@dataclass(frozen=True)
class FilesJob:
    """What is to be read, how, and where it goes."""

    data: Path
    source: str  # reference of a Source
    settings: Ingest
    artifact: Path
    quarantine_list: Path


def run(job: FilesJob, found: Manifest, make_pipeline: Callable[[], beam.Pipeline]) -> account.Account:
    """Ingests the files and returns the account."""
    plans = shards.plan(found.files, job.settings)
    _progress.start(len(found.files))
    with make_pipeline() as pipeline:
        _ = (
            pipeline
            | "PlanShards" >> beam.Create(plans, reshuffle=True)
            | "WriteShards" >> beam.ParDo(_WriteShard(job))
        )
    written = reports.collect(job.artifact, [plan.name for plan in plans])
    return account.close_books(job.artifact, found, written, job.settings, job.quarantine_list)


class _WriteShard(beam.DoFn):
    def __init__(self, job: FilesJob) -> None:
        self._job = job

    def process(self, shard: shards.ShardPlan) -> tuple[()]:
        job = self._job
        report = write_shard(shard, refs.load(job.source), job.data, job.artifact, job.settings)
        reports.store(job.artifact, shard.name, [report])
        _progress.add(len(shard.files))
        return ()  # what there is to tell is in the report


class _Count:
    """Files seen by this process; all of them with the in-memory runner."""

    def __init__(self) -> None:
        self.start(0)

    def start(self, total: int) -> None:
        self.done, self.total = 0, total

    def add(self, files: int) -> None:
        self.done += files
        progress.report(self.done, self.total or None)


_progress = _Count()
