"""The other workers of a training, by TF_CONFIG: the chief runs the pipeline, each of the others joins its Trainer.

    penstock run            (chief)   … ─► Trainer: writes job.json, listens ─► trains ─► … ─► writes "ended"
    penstock train-worker   (others)  waits until the chief listens ─► reads job.json ─► trains ─► exit

All see the root, the data and the settings' files under the same paths; of a root on an object store, the state folder.
A worker takes no lock and writes no metadata.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from typing import NoReturn

import orjson

from components.errors import Cancelled, PenstockError, SettingsError, exit_code_of
from components.redact import redact
from components.storage import durable
from components.training import interrupt
from components.training.hardware import cluster
from pipelines import log
from pipelines.config import RunConfig

_ENDED = "ended"  # key of job.json: when a run ended, and its exit code
_POLL_SECONDS = 0.5
_WAIT_SECONDS = 24 * 3600  # the nodes before the Trainer may take long; a chief that failed to start says nothing


def require_chief(config: RunConfig) -> None:
    """Raises SettingsError if TF_CONFIG says that another worker runs the pipeline, or does not suit the settings."""
    train, size = config.settings.train, config.settings.input.batch_size
    if (found := cluster.expected(train.workers)) is None:
        return
    count = len(found.addresses)
    if ":" in train.devices:
        raise SettingsError(
            f"train.devices is {train.devices}, and {cluster.VARIABLE} lists {count} workers; expected one of them: "
            "set train.devices to cpu, or start more workers"
        )
    if size % count and not train.scale_learning_rate:
        raise SettingsError(
            f"input.batch_size is {size}, for {count} workers; expected a multiple of their number, or 0 to choose it"
        )
    if not found.is_chief:
        raise SettingsError(
            f"{cluster.VARIABLE} says that this is worker {found.index}; expected worker 0, which runs the pipeline: "
            f"run `penstock train-worker {config.task.name}` here"
        )


@contextmanager
def released(config: RunConfig) -> Iterator[list[int]]:
    """Ends the waiting of the other workers when the chief's run ends, also if it had nothing to train.

    Yields a list for the exit code of the run. Call it only under the lock of the root.
    """
    codes: list[int] = []
    try:
        yield codes
    except BaseException as error:
        codes[:] = [exit_code_of(error)]
        raise
    finally:
        if cluster.read() is not None:
            durable.write_bytes(config.job, orjson.dumps({_ENDED: [time.time(), *codes]}))


def join(config: RunConfig, show: Callable[[str], None]) -> NoReturn:
    """Trains with the chief; ends the process, also at a signal: process 1 of a container would ignore it."""
    with interrupt.raised():
        _join(config, show)


def _join(config: RunConfig, show: Callable[[str], None]) -> NoReturn:
    found = cluster.read()
    if found is None or found.is_chief:
        raise SettingsError(
            f"`penstock train-worker` needs {cluster.VARIABLE} with several workers, of which this is not the first; "
            "see docs/distributed.md"
        )
    me, count = found.index, len(found.addresses)
    show(f"worker {me} of {count}: waiting for the chief at {found.addresses[0]}, in {config.state}")
    if (code := _code_without_training(config, found)) is not None:
        show(f"worker {me}: the chief's run ended without training, with exit code {code}")
        raise SystemExit(code)
    log.prepare_environment()
    file = config.logs / f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-worker-{me}.log"
    with log.diverted(file) as user:
        from components.training import worker

        say = partial(print, file=user)

        def train() -> None:
            say(f"worker {me}: training; log: {file}")
            worker.run(config.job)
            say(f"worker {me}: done")

        worker.end(
            train,
            lambda error: say(
                redact(f"penstock: {error}" if isinstance(error, PenstockError | Cancelled) else repr(error))
            ),
        )


def _code_without_training(config: RunConfig, found: cluster.Cluster) -> int | None:
    """Waits until the chief listens; returns the exit code of its run if that ended first."""
    before, latest = _end_of_run(config), time.monotonic() + _WAIT_SECONDS
    while not found.answers(0):  # it listens after it has written the job
        if (ended := _end_of_run(config)) != before and ended:
            return int(ended[1])
        if time.monotonic() > latest:
            raise PenstockError(
                f"the chief at {found.addresses[0]} did not begin to train in {_WAIT_SECONDS // 3600} hours, and no "
                f"run has ended in {config.state}; see the log there: is it running, with the same --root?"
            )
        time.sleep(_POLL_SECONDS)
    return None


def _end_of_run(config: RunConfig) -> Sequence[float] | None:
    try:
        return orjson.loads(config.job.read_bytes()).get(_ENDED)
    except FileNotFoundError:
        return None
