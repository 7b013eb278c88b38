"""The other workers of a training, by TF_CONFIG: the chief runs the pipeline, each of the others joins its Trainer.

    penstock run            (chief)   … ─► Trainer: writes job.json, listens ─► trains ─► … ─► writes "ended"
    penstock train-worker   (others)  waits until the chief listens ─► reads job.json ─► trains ─► exit

All see the root, the data and the settings' files under the same paths. A worker takes no lock and writes no metadata.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import orjson

from components.errors import PenstockError, SettingsError
from components.redact import redact
from components.storage import durable
from components.training import cluster
from pipelines import log
from pipelines.config import RunConfig

_ENDED = "ended"  # key of job.json: when a run ended
_POLL_SECONDS = 0.5


@contextmanager
def released(config: RunConfig) -> Iterator[None]:
    """Ends the waiting of the other workers when the chief's run ends, also if it had nothing to train."""
    found = cluster.read()
    if found is not None and not found.is_chief:
        raise SettingsError(
            f"{cluster.VARIABLE} says that this is worker {found.index}; expected worker 0, which runs the pipeline: "
            f"run `penstock train-worker {config.task.name}` here"
        )
    try:
        yield
    finally:
        if found is not None:
            durable.write_bytes(config.job, orjson.dumps({_ENDED: time.time()}))


def join(config: RunConfig, show: Callable[[str], None]) -> NoReturn:
    """Trains with the chief; ends the process."""
    found = cluster.read()
    if found is None or found.is_chief:
        raise SettingsError(
            f"`penstock train-worker` needs {cluster.VARIABLE} with several workers, of which this is not the first; "
            "see docs/distributed.md"
        )
    me, count = found.index, len(found.addresses)
    show(f"worker {me} of {count}: waiting for the chief at {found.addresses[0]}, in {config.root}")
    if not _chief_trains(config, found):
        show(f"worker {me}: the chief's run ended without training")
        raise SystemExit(0)
    log.prepare_environment()
    from components.training import worker

    def train() -> None:
        show(f"worker {me}: training")
        worker.run(config.job)
        show(f"worker {me}: done")

    worker.end(
        train, lambda error: show(redact(f"penstock: {error}" if isinstance(error, PenstockError) else repr(error)))
    )


def _chief_trains(config: RunConfig, found: cluster.Cluster) -> bool:
    """Waits until the chief listens; returns False if its run ended first."""
    before = _end_of_run(config)
    while not found.answers(0):  # it listens after it has written the job
        if _end_of_run(config) != before:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _end_of_run(config: RunConfig) -> float | None:
    try:
        return orjson.loads(config.job.read_bytes()).get(_ENDED)
    except FileNotFoundError:
        return None
