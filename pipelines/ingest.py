"""`penstock ingest`: raw data to sharded TFRecords, without the rest of the pipeline.

data ─► survey ─► shards, manifest, quarantine, schema ─► published as --out when all of it is written
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import SettingsError
from components.ingest.survey import cached
from components.ingest.survey.survey import Survey
from components.records.manifest import Manifest
from components.settings.ingest import Ingest
from components.storage import durable, paths
from components.storage.hashing import HashCache
from pipelines.orchestration import disk, lock


@dataclass(frozen=True)
class IngestRequest:
    """What to ingest, and where to."""

    data: str
    out: Path
    settings: Ingest
    beam_args: Sequence[str] = ()
    wait: bool = False  # for another ingest into the same folder
    earlier: Path | None = None  # the --out of an earlier ingest, whose unchanged spans are not read again


def ingest(request: IngestRequest, surveyed: Callable[[Survey], None] | None = None) -> Manifest:
    """Ingests the data into a new folder, and returns its manifest.

    Args:
        request: what, and where to.
        surveyed: called with the survey, before any data is read.
    """
    out = request.out
    if out.exists():
        raise SettingsError(f"--out {out}: exists already; choose another folder, or remove this one")
    caches = out.parent / ".penstock"
    with (
        disk.explained(out.parent, "--out", lambda: cached.take(request.data, request.settings, HashCache(None))),
        lock.hold(caches / out.name, wait=request.wait, place=out, flag="--out"),
    ):
        durable.sweep(out.parent, out.name)
        with durable.publish_folder(out) as artifact:
            return _run(request, artifact, caches, surveyed)


def _run(request: IngestRequest, artifact: Path, caches: Path, surveyed: Callable[[Survey], None] | None) -> Manifest:
    cache = HashCache(caches / "hashes.db")

    def survey() -> Survey:
        return cached.take(request.data, request.settings, cache)

    paths.prepare(request.data, request.beam_args)
    found = survey()
    if surveyed is not None:
        surveyed(found)
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from components.ingest import run
    from components.ingest.units import Output

    def pipeline() -> Any:
        return beam.Pipeline(options=PipelineOptions(list(request.beam_args)))

    quarantine_list = request.out.with_name(f"{request.out.name}.quarantine.jsonl")
    output = Output(artifact, request.settings, caches / "checks.db")
    return run.run(run.Job(found, output, quarantine_list, request.earlier), pipeline, survey)
