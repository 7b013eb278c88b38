"""`penstock ingest`: raw data to sharded TFRecords, without the rest of the chain.

data ─► who reads it? ─► shards, manifest, quarantine, schema ─► published whole as --out
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import DiskFull, SettingsError
from components.ingest.survey import cached
from components.ingest.survey.survey import Survey
from components.records.manifest import Manifest
from components.settings.ingest import Ingest
from components.storage import durable, paths
from components.storage.hashing import HashCache
from pipelines.orchestration import lock

_NO_ROOM = 1 << 20  # with less than this free, whatever failed failed for lack of room


@dataclass(frozen=True)
class Wish:
    """What a user wants to be ingested, and where to."""

    data: str
    out: Path
    settings: Ingest
    beam_args: Sequence[str] = ()
    wait: bool = False  # for another ingest into the same folder
    earlier: Path | None = None  # the --out of an earlier ingest: its unchanged spans are not read again


def ingest(wish: Wish, surveyed: Callable[[Survey], None] | None = None) -> Manifest:
    """Ingests the data into a new folder; tells `surveyed` what was found before it is read."""
    out = wish.out
    if out.exists():
        raise SettingsError(f"--out {out}: is there already; choose another, or remove it")
    notes = out.parent / ".penstock"
    try:
        with lock.hold(notes / out.name, wait=wish.wait, place=out, flag="--out"):
            durable.sweep(out.parent, out.name)
            with durable.publish_folder(out) as artifact:
                return _run(wish, artifact, notes, surveyed)
    except Exception as error:
        free = shutil.disk_usage(out.parent).free
        if free > _NO_ROOM and "No space left on device" not in str(error):
            raise
        raise DiskFull(
            f"{out}: no space left on its disk: {free / 1e6:,.1f} MB free; nothing half-written was left there; "
            "make room, or choose another --out"
        ) from error


def _run(wish: Wish, artifact: Path, notes: Path, surveyed: Callable[[Survey], None] | None) -> Manifest:
    cache = HashCache(notes / "hashes.db")

    def look() -> Survey:
        return cached.take(wish.data, wish.settings, cache)

    paths.prepare(wish.data, wish.beam_args)
    found = look()
    if surveyed is not None:
        surveyed(found)
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from components.ingest import run
    from components.ingest.work.units import Output

    def pipeline() -> Any:
        return beam.Pipeline(options=PipelineOptions(list(wish.beam_args)))

    listed = wish.out.with_name(f"{wish.out.name}.quarantine.jsonl")
    job = run.Job(found, Output(artifact, wish.settings, notes / "checks.db"), listed, wish.earlier)
    return run.run(job, pipeline, look)
