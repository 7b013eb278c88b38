"""One process of a training that has several, or several logical devices: `python -m` JOB RESULT."""

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import orjson
import tensorflow as tf

from components import progress
from components.errors import PenstockError, exit_code_of
from components.settings.train import Train
from components.storage.hashing import digest_of
from components.training import checkpoint, cluster, devices, trainer
from components.training.cluster import Cluster
from components.training.devices import Devices


def run(job: Path) -> tuple[dict[str, Any], Any]:
    """Trains as one of the workers of a job; returns the history and the model.

    Call it first thing in a process: strategies need TensorFlow as it starts.
    """
    content = job.read_text()
    args = SimpleNamespace(**orjson.loads(content))
    found, config = cluster.read(), args.custom_config
    folder = config.get("checkpoints")
    saved = checkpoint.Checkpoints(Path(folder) if folder else None, writes=False)
    saved.release()  # the Trainer reads it again
    if saved.found:
        checkpoint.set_threads(saved.found.header["threads"])
    with _deaths_explained(found):
        chosen = devices.start(Train.model_validate(config["train"]).devices, found)
        _require_same(chosen, [content, saved.found.header["at"] if saved.found else ""])
        trained = trainer.train(args, chosen)
    with contextlib.suppress(tf.errors.OpError):  # all have arrived here: nobody needs the others any more
        chosen.agree(0)
    return trained


def _require_same(chosen: Devices, read: Sequence[str]) -> None:
    """Raises an error unless all workers have read the same."""
    digest = int(digest_of(read)[:15], 16)
    highest, lowest = chosen.agree(digest, -digest)
    if highest != -lowest:
        raise PenstockError(
            "the workers have read different jobs or checkpoints in the root; expected a shared file system that shows "
            "all of them the newest files: start all workers again"
        )


@contextlib.contextmanager
def _deaths_explained(found: Cluster | None) -> Iterator[None]:
    """Names the workers that have ended if a sum over all workers fails."""
    try:
        yield
    except tf.errors.OpError as error:
        if found is None or not (silent := found.silent()):
            raise
        raise PenstockError(
            f"{' and '.join(silent)} ended or cannot be reached, so training stopped; see the log there, then start "
            "all workers again: training continues from the last checkpoint"
        ) from error


def end(action: Callable[[], None], report: Callable[[BaseException], None]) -> NoReturn:
    """Ends the process with the exit code of an action, without TensorFlow's own end, which waits for other workers."""
    code = 0
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - it is reported, and decides the exit code
        traceback.print_exc()
        report(error)
        code = exit_code_of(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> NoReturn:
    """Trains, and writes history and weights for the Trainer."""
    job, result = map(Path, sys.argv[1:])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    reports = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # nothing else may write between the reports

    def send(**message: Any) -> None:
        reports.write(orjson.dumps(message) + b"\n")

    def train() -> None:
        progress.listen(lambda each: send(progress=astuple(each)), lambda text: send(message=text))
        with progress.warnings_to(lambda text: send(warning=text)):
            history, model = run(job)
        checkpoint.write(result, {"history": history}, [variable.numpy() for variable in model.variables])

    def report(error: BaseException) -> None:
        if isinstance(error, Exception):
            send(error=[type(error).__name__, str(error)])

    end(train, report)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
