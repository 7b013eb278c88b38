"""The records to measure: those of an artifact that is named, or what Ingest wrote last, or what it writes now."""

from pathlib import Path

from components.errors import PenstockError, SettingsError
from components.records import roles
from components.records.manifest import MANIFEST
from components.tasks import Task, assign
from components.tasks.assign import Assigned
from pipelines.config import HOME, RunConfig
from pipelines.orchestration.store import Store


def find(config: RunConfig, given: str | None = None) -> Path:
    """Returns an artifact of Ingest; runs the pipeline up to there if it never got so far."""
    if given:
        return _checked(given)
    found = newest(config)
    if found is None:
        _run(config, "Ingest")
        found = newest(config)
    if found is None:
        raise PenstockError(f"{config.root}: Ingest ran and left no artifact; `penstock run` says more")
    return found


def graph(config: RunConfig, artifact: Path) -> Path | None:
    """Returns what Transform fitted, if records are read by it; runs the pipeline up to there if it never got there."""
    if not any(each.part.fit for each in assigned(config.task, artifact)):
        return None
    found = _newest(config, "Transform", "transform_fn")
    if found is None:
        _run(config, "Transform")
        found = _newest(config, "Transform", "transform_fn")
    if found is None:
        raise PenstockError(f"{config.root}: Transform ran and left no artifact; `penstock run` says more")
    return found


def assigned(task: Task, artifact: Path) -> tuple[Assigned, ...]:
    """Returns the task's parts that the records of an artifact have columns for."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    own = artifact / "schema.pbtxt"  # images of class folders have none: theirs is the task's
    schema = text_format.Parse((own if own.exists() else HOME / task.schema).read_bytes(), schema_pb2.Schema())
    return assign.assign(task.parts, roles.read(schema, task.label))


def newest(config: RunConfig) -> Path | None:
    """Returns what the newest Ingest that succeeded wrote, if it is still there."""
    return _newest(config, "Ingest", MANIFEST)


def _newest(config: RunConfig, node: str, inside: str) -> Path | None:
    store = Store(config.metadata, config.name)
    for execution in store.finished(node):
        for artifact in store.outputs(execution.id):
            if artifact.live and (artifact.uri / inside).exists():
                return artifact.uri
    return None


def _checked(given: str) -> Path:
    path = Path(given).absolute()
    if not (path / MANIFEST).is_file():
        raise SettingsError(
            f"--records {given}: expected a folder that `penstock ingest` or the Ingest node wrote, "
            f"with {MANIFEST} in it"
        )
    return path


def _run(config: RunConfig, node: str) -> None:
    from pipelines import run
    from pipelines.orchestration.plan import Request

    if run.run(config, Request(last=node)):
        raise PenstockError(f"there are no records to measure: {node} failed in {config.root}, see above")
