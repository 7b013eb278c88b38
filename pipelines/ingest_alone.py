"""`penstock ingest`: raw data to sharded TFRecords, without the rest of the chain.

data ─► who reads it? ─► shards, manifest, quarantine, schema ─► published whole as --out
"""

from collections.abc import Sequence
from pathlib import Path

from components import durable, refs
from components.errors import SettingsError
from components.hashing import HashCache
from components.ingest import detect, manifest
from components.ingest.account import Account
from components.settings import Ingest


def ingest(data: str, out: Path, settings: Ingest, label: str, beam_args: Sequence[str]) -> Account:
    """Ingests `data` into the new folder `out`."""
    if out.exists():
        raise SettingsError(f"--out {out}: is there already; choose another, or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    located = detect.locate(data)
    listed = out.with_name(f"{out.name}.quarantine.jsonl")
    with durable.publish_folder(out) as artifact:
        return _run(located, artifact, listed, settings, label, beam_args)


def _run(
    located: detect.Located, artifact: Path, listed: Path, settings: Ingest, label: str, beam_args: Sequence[str]
) -> Account:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from components.ingest import run_files, run_rows

    def pipeline() -> beam.Pipeline:
        return beam.Pipeline(options=PipelineOptions(list(beam_args)))

    cache = HashCache(None)
    if located.source == detect.IMAGE_FOLDER:
        found = manifest.take(refs.load(located.source), located.home, cache)
        files_job = run_files.FilesJob(located.home, located.source, settings, artifact, listed)
        return run_files.run(files_job, found, pipeline)
    job = run_rows.RowsJob(located.home, located.files, located.source, label, settings, artifact, listed)
    return run_rows.run(job, pipeline, cache)
