"""Finds the artifacts to measure: the one the user names, the newest in the pipeline root, or one made now."""

from contextlib import closing
from pathlib import Path

from components.errors import PenstockError, SettingsError
from components.records import roles
from components.records.manifest import MANIFEST
from components.storage.hashing import HashCache
from components.storage.location import Location
from components.tasks import Task, assign
from components.tasks.assign import Assigned
from pipelines.config import HOME, RunConfig
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.remote.mirror import Mirror


def examples(config: RunConfig, given: str | None = None) -> Path:
    """Returns an Examples artifact: the given one, or the newest; runs the pipeline up to Ingest if there is none."""
    if given is None:
        return _newest_or_run(config, "Ingest", MANIFEST)
    path = Path(given).absolute()
    if not (path / MANIFEST).is_file():
        raise SettingsError(
            f"--records {given}: no {MANIFEST} in it; "
            "expected a folder that `penstock ingest` or the Ingest node has written"
        )
    return path


def transform_graph(config: RunConfig, artifact: Path) -> Path | None:
    """Returns Transform's newest output if the task reads records with it; runs the pipeline up to it if needed."""
    if not any(each.part.fit for each in assigned(config.task, artifact)):
        return None
    return _newest_or_run(config, "Transform", "transform_fn")


def assigned(task: Task, artifact: Path) -> tuple[Assigned, ...]:
    """Returns the task's parts that have columns in the artifact."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    own = artifact / "schema.pbtxt"  # image folders have none: they use the task's schema
    schema = text_format.Parse((own if own.exists() else HOME / task.schema).read_bytes(), schema_pb2.Schema())
    return assign.assign(task.parts, roles.read(schema, task.label))


def newest(config: RunConfig, node: str, inside: str) -> Path | None:
    """Returns the newest output of a node that still exists; `inside` is a file or folder it must contain."""
    store = Store(config.metadata, config.name)
    for execution in store.finished(node):
        for artifact in store.outputs(execution.id):
            if artifact.live and (artifact.uri / inside).exists():
                return _local(config, artifact.uri)
    return None


def _local(config: RunConfig, folder: Location) -> Path:
    """Returns an artifact as a folder on this machine; one on an object store is fetched."""
    if isinstance(folder, Path):
        return folder
    with closing(HashCache(config.hash_cache)) as cache:
        return Mirror(config).fetch(folder, seals.read(config, folder), cache)


def _newest_or_run(config: RunConfig, node: str, inside: str) -> Path:
    from pipelines import run
    from pipelines.orchestration.plan import Request

    found = newest(config, node, inside)
    if found is None:
        if run.run(config, Request(last=node)).exit_code:
            raise PenstockError(f"nothing to measure: {node} failed in {config.root}; see the messages above")
        found = newest(config, node, inside)
    if found is None:
        raise PenstockError(f"{config.root}: {node} ran, but its output is missing; run `penstock run` and see its log")
    return found
