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
        _ingest(config)
        found = newest(config)
    if found is None:
        raise PenstockError(f"{config.root}: Ingest ran and left no artifact; `penstock run` says more")
    return found


def newest(config: RunConfig) -> Path | None:
    """Returns what the newest Ingest that succeeded wrote, if it is still there."""
    store = Store(config.metadata, config.name)
    for execution in store.finished("Ingest"):
        for artifact in store.outputs(execution.id):
            if artifact.live and (artifact.uri / MANIFEST).is_file():
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


def _ingest(config: RunConfig) -> None:
    from pipelines import execute
    from pipelines.plan import Request

    if execute.run(config, Request(last="Ingest")):
        raise PenstockError(f"there are no records to measure: Ingest failed in {config.root}, see above")
