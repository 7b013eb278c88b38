"""The records to measure: those of an artifact that is named, or what Ingest wrote last, or what it writes now."""

from pathlib import Path

from components.errors import PenstockError, SettingsError
from components.ingest.account import MANIFEST
from pipelines.config import RunConfig
from pipelines.store import Store


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


def graph(config: RunConfig) -> Path | None:
    """Returns what Transform fitted, if the task reads by it; runs the pipeline up to there if it never got so far."""
    if not config.task.fits:
        return None
    found = _newest(config, "Transform", "transform_fn")
    if found is None:
        _run(config, "Transform")
        found = _newest(config, "Transform", "transform_fn")
    if found is None:
        raise PenstockError(f"{config.root}: Transform ran and left no artifact; `penstock run` says more")
    return found


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
    from pipelines import execute
    from pipelines.plan import Request

    if execute.run(config, Request(last=node)):
        raise PenstockError(f"there are no records to measure: {node} failed in {config.root}, see above")
