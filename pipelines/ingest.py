"""`penstock ingest`: raw data to sharded TFRecords, without the rest of the pipeline.

data ─► survey ─► shards, manifest, quarantine, schema ─► published as --out when all of it is written
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components import progress
from components.errors import SettingsError
from components.ingest.survey import cached
from components.ingest.survey.survey import Survey
from components.records.manifest import Manifest
from components.settings.engine import Engine
from components.settings.ingest import Ingest
from components.storage import durable, paths
from components.storage.hashing import HashCache
from pipelines.engine import jobs
from pipelines.orchestration.root import disk, leftovers, lock
from pipelines.orchestration.runners import engines


@dataclass(frozen=True)
class IngestRequest:
    """What to ingest, and where to."""

    data: str
    out: Path
    settings: Ingest
    beam_args: Sequence[str] = ()
    wait: bool = False  # for another ingest into the same folder
    earlier: Path | None = None  # the --out of an earlier ingest, whose unchanged spans are not read again
    engine: Engine = field(default_factory=Engine)


def ingest(request: IngestRequest, surveyed: Callable[[Survey], None] | None = None) -> Manifest:
    """Ingests the data into a new folder, and returns its manifest.

    Args:
        request: what, and where to.
        surveyed: called with the survey, before any data is read.
    """
    if request.engine.runner == "dataflow":
        raise SettingsError(
            "penstock ingest writes to this machine's disk, which workers of Dataflow do not see; run it "
            "with --runner direct, or a pipeline with --root gs://bucket/folder: penstock run"
        )
    out = request.out
    if out.exists():
        raise SettingsError(f"--out {out}: exists already; choose another folder, or remove this one")
    caches = out.parent / ".penstock"
    notes, listed = caches / out.name, _quarantine_list(out)
    with (
        disk.explained(lambda: disk.places((out.parent, caches), "choose another --out"), lambda: _needed(request)),
        lock.hold(notes, wait=request.wait, place=out, flag="--out"),
        leftovers.temporary_files(out),
    ):
        jobs.end_left(notes, progress.say)
        durable.sweep(notes)
        durable.sweep(out.parent, out.name, listed.name)
        listed.unlink(missing_ok=True)  # of an earlier attempt
        with durable.publish_folder(out) as artifact:
            made = _run(request, artifact, notes, surveyed)
        listed.unlink()  # --out has its own
        return made


def _needed(request: IngestRequest) -> str:
    return disk.needed_for(cached.take(request.data, request.settings, HashCache(None)))


def _run(request: IngestRequest, artifact: Path, notes: Path, surveyed: Callable[[Survey], None] | None) -> Manifest:
    caches = notes.parent
    cache = HashCache(caches / "hashes.db")

    def survey() -> Survey:
        return cached.take(request.data, request.settings, cache)

    paths.prepare(request.data, request.beam_args)
    found = survey()
    if surveyed is not None:
        surveyed(found)
    from components.ingest import run
    from components.ingest.units import Output

    prepared = engines.prepare(request.engine, request.beam_args, notes=notes)

    def pipeline() -> Any:
        return prepared.pipeline("ingest", "Ingest")

    output = Output(artifact, request.settings, caches / "checks.db")
    return run.run(run.IngestJob(found, output, _quarantine_list(request.out), request.earlier), pipeline, survey)


def _quarantine_list(out: Path) -> Path:
    """Returns the list of quarantined records that is kept if too many of them leave no --out."""
    return out.with_name(f"{out.name}.quarantine.jsonl")
