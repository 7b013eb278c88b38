"""One process of a training that has several, or several logical devices: `python -m` JOB RESULT."""

import contextlib
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import orjson
import tensorflow as tf

from components import fingerprint, progress
from components.errors import Cancelled, PenstockError, exit_code_of
from components.settings.train import Train
from components.storage.hashing import digest_of
from components.training import checkpoint, trainer
from components.training.hardware import cluster, devices, precision
from components.training.hardware.cluster import Cluster
from components.training.hardware.devices import Devices

_MODULE = "components.training.worker"  # the name of this module is another one if it is started
_OTHER_FILES = (
    "the workers have read different jobs or checkpoints in the root; expected a shared file system that shows all of "
    "them the newest files: start all workers again"
)
_OTHER_MACHINES = (
    "the workers have different versions of Penstock, numbers of devices or kinds of GPU; expected the same on all of "
    "them: compare `penstock --version` and the GPUs, then start all workers again"
)


def run(job: Path) -> tuple[dict[str, Any], Any]:
    """Trains as one of the workers of a job; returns the history and the model.

    Call it first thing in a process: strategies need TensorFlow as it starts.
    """
    content, found = _content(job), cluster.read()
    args = SimpleNamespace(**orjson.loads(content))
    config = args.custom_config
    folder = config.get("checkpoints")
    saved = checkpoint.Checkpoints(Path(folder) if folder else None, writes=False)
    saved.release()  # the Trainer reads it again
    if saved.found:
        checkpoint.set_threads(saved.found.header["threads"])
    with _deaths_explained(found):
        settings = Train.model_validate(config["train"])
        chosen = devices.start(settings.devices, found)
        _require_same(
            chosen,
            {
                _OTHER_FILES: [content, saved.found.header["at"] if saved.found else ""],
                _OTHER_MACHINES: [len(chosen.names), precision.policy(settings), fingerprint.sources([_MODULE])],
            },
        )
        trained = trainer.train(args, chosen)
    with contextlib.suppress(tf.errors.OpError):  # all have arrived here: nobody needs the others any more
        chosen.agree(0)
    return trained


def _content(job: Path) -> str:
    """Returns the job that the chief has written."""
    with contextlib.suppress(FileNotFoundError):
        if "custom_config" in orjson.loads(content := job.read_text()):
            return content
    raise PenstockError(
        f"the chief's address answers, but {job} holds no training; expected the job that the chief writes before it "
        "listens: use the same --root on all workers, on a shared file system, and a port that nothing else uses"
    )


def _require_same(chosen: Devices, parts: Mapping[str, Sequence[Any]]) -> None:
    """Raises the error that is the key of values which differ among the workers."""
    digests = [int(digest_of([orjson.dumps(values).decode()])[:15], 16) for values in parts.values()]
    highest = chosen.agree(*digests, *(-digest for digest in digests))
    for error, most, least in zip(parts, highest, highest[len(parts) :], strict=False):
        if most != -least:
            raise PenstockError(error)


@contextlib.contextmanager
def _deaths_explained(found: Cluster | None) -> Iterator[None]:
    """Names the workers that have ended, or do not respond, if a sum over all workers fails."""
    try:
        yield
    except tf.errors.OpError as error:
        silent = found.silent() if found else []
        if found is None or not (silent or isinstance(error, tf.errors.UnavailableError)):
            raise
        # A worker that hangs still accepts connections.
        tasks = sorted(set(re.findall(r"/job:\w+/replica:\d+/task:\d+", str(error)))) or ["another worker"]
        raise PenstockError(
            f"{' and '.join(silent or tasks)} ended or cannot be reached, so training stopped; see the log there, then "
            "start all workers again: training continues from the last checkpoint"
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
        if isinstance(error, Cancelled):
            send(cancelled=[error.signum, error.note])
        elif isinstance(error, Exception):
            send(error=[type(error).__name__, str(error)])

    end(train, report)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
