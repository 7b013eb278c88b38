"""Training in a process of its own, where several workers or logical devices need one that has not used TensorFlow.

    Trainer ─► job.json ─┬─► components.training.worker ─► history, weights of the best epoch ─► Trainer
               (shared)  └─► penstock train-worker, on other machines

The process reports progress, messages and warnings as lines of JSON, and ends with the exit code of its error.
"""

import contextlib
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from components import errors, helper_process, progress
from components.errors import Cancelled, PenstockError, SettingsError, exit_code_of
from components.progress import Progress
from components.settings.train import Train
from components.storage import durable
from components.training import checkpoint
from components.training.hardware import cluster

_ARGUMENTS = ("train_files", "eval_files", "transform_graph_path", "base_model", "model_run_dir", "custom_config")
_MODULE = "components.training.worker"
_SIGNALLED = {exit_code_of(each): each for each in (Cancelled(signal.SIGTERM), Cancelled(signal.SIGINT))}
_END_SECONDS = 20.0  # for a checkpoint after a signal


def is_needed(settings: Train) -> bool:
    """Whether this training needs a process of its own; raises SettingsError if there are not the workers to expect."""
    found = cluster.expected(settings.workers)
    return found is not None or ":" in settings.devices


def train(args: Any) -> tuple[dict[str, Any], Sequence[Any]]:
    """Trains with the arguments of run_fn; returns the history and the weights of the best epoch."""
    content = orjson.dumps({name: getattr(args, name) for name in _ARGUMENTS})
    with tempfile.TemporaryDirectory(prefix="penstock-train-") as home:
        job = _shared(args.custom_config) if cluster.read() else Path(home) / "job.json"
        durable.write_bytes(job, content)
        try:
            run(helper_process.module(_MODULE, str(job), str(Path(home) / "result")))
        finally:
            job.unlink(missing_ok=True)
        trained = checkpoint.read(Path(home) / "result")
    return trained.header["history"], trained.arrays


def _shared(config: Mapping[str, Any]) -> Path:
    """Returns where the other workers find the job."""
    if not config.get("job"):
        raise SettingsError(f"{cluster.VARIABLE} lists several workers; expected none: only `penstock run` starts them")
    return Path(config["job"])


def run(command: Sequence[str]) -> None:
    """Runs a command to its end; raises the error that it reports."""
    # The process ends when its standard input does, so also if this process is killed.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as child:
        error: BaseException = PenstockError("the training process was killed, possibly because it ran out of memory")
        try:
            for line in child.stdout or ():
                error = _relay(orjson.loads(line)) or error
        except KeyboardInterrupt as stopped:
            ended = _end(child)
            if isinstance(ended, Cancelled):  # it says what its checkpoint holds; which signal, this process knows
                raise Cancelled(getattr(stopped, "signum", signal.SIGINT), ended.note) from None
            raise
        except BaseException:
            _end(child)
            raise
        if (code := child.wait()) in _SIGNALLED and not isinstance(error, Cancelled):
            raise _SIGNALLED[code]
        if code:
            raise error


def _end(child: subprocess.Popen[bytes]) -> BaseException | None:
    """Asks the process to write a checkpoint and to end; returns the last error that it reports, if there is one."""
    child.terminate()
    try:
        child.wait(_END_SECONDS)  # its standard input stays open meanwhile
    except subprocess.TimeoutExpired:
        child.kill()
    error = None
    for line in child.stdout or ():
        with contextlib.suppress(orjson.JSONDecodeError):  # the signal came while its first part was read
            error = _relay(orjson.loads(line)) or error
    return error


def _relay(message: Mapping[str, Any]) -> BaseException | None:
    """Passes on what the process reports; returns its error, if it is one."""
    match message:
        case {"progress": values}:
            progress.report(Progress(*values))
        case {"message": text}:
            progress.say(text)
        case {"warning": text}:
            progress.warn(text)
        case {"cancelled": [signum, note]}:
            return Cancelled(signum, note)
        case {"error": [name, text]}:
            kind = getattr(errors, name, None)
            return kind(text) if kind else PenstockError(f"{name}: {text}")
    return None
