"""Sends everything that libraries print to a log file, without secrets.

    descriptors 1 and 2 ─► pipe ─► a process that removes secrets ─► log, readable by its owner only

C++ code writes to file descriptors, so the descriptors are redirected; our own display gets a copy of the old ones.
A process, not a thread: code that holds Python's lock while it writes to a full pipe would wait for a thread forever.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from components import cuda, helper_process
from components.redact import redact, secrets
from components.storage import durable

_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "KERAS_BACKEND": "tensorflow",
    "GRPC_VERBOSITY": "ERROR",
}
_SECRETS = "PENSTOCK_LOG_FILTER"  # environment variable of the filter process: JSON list of the secrets to remove
_CHUNK = 1 << 16
_DRAIN = 3  # seconds to wait for the last lines; a child that outlives the run may keep the pipe open


def prepare_environment() -> None:
    """Sets what libraries read at import, and opens CUDA's libraries; call it before importing TensorFlow."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    cuda.prepare()
    # Google's clients warn once per package, a dozen times; the locked versions need Python 3.10.
    warnings.filterwarnings("ignore", message="You are using a non-supported Python version")


@contextlib.contextmanager
def diverted(log: Path) -> Iterator[TextIO]:
    """Redirects standard output and error to `log`; yields a stream that still reaches the user."""
    log.parent.mkdir(mode=durable.OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    copier = _start_filter(log)
    saved = os.dup(1), os.dup(2)
    user = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="replace")
    if copier.stdin is not None:
        os.dup2(copier.stdin.fileno(), 1)
        os.dup2(copier.stdin.fileno(), 2)
        copier.stdin.close()
    try:
        _log_to_stderr()
        yield user
    finally:
        logging.getLogger("absl").setLevel(logging.WARNING)  # ML Metadata announces each connection
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in saved:
            os.close(descriptor)
        user.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            copier.wait(_DRAIN)


def _start_filter(log: Path) -> "subprocess.Popen[bytes]":
    with open(log, "ab", buffering=0, opener=durable.owner_only) as file:
        return subprocess.Popen(
            helper_process.command(f"from {__name__} import copy_filtered; copy_filtered({file.fileno()})"),
            env={**os.environ, _SECRETS: json.dumps(secrets())},
            pass_fds=[file.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def copy_filtered(log: int) -> None:
    """What the filter process runs: copies standard input to a descriptor until all that write to it have ended."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # the last messages of a run that was stopped belong in its log
    # Two processes hold the pipe open: without a reader, every print of the run would fail. One copies; the other
    # starts a new copy if that one is killed.
    while child := os.fork():
        if os.waitpid(child, 0)[1] == 0:
            return
    known, held = json.loads(os.environ[_SECRETS]), b""
    while chunk := os.read(0, _CHUNK):
        lines, newline, rest = (held + chunk).rpartition(b"\n")
        if not newline and len(rest) > _CHUNK:
            lines, rest = rest, b""
        held = rest
        _write(log, lines + newline, known)
    _write(log, held, known)


def _write(log: int, content: bytes, known: list[str]) -> None:
    text = redact(content.decode("utf-8", "surrogateescape"), known)
    with contextlib.suppress(OSError):  # a full disk ends the log, not the run
        os.write(log, text.encode("utf-8", "surrogateescape"))


def _log_to_stderr() -> None:
    from absl import logging as absl_logging

    absl_logging.set_verbosity(absl_logging.INFO)
    absl_logging.use_absl_handler()
    logging.captureWarnings(capture=True)
    warnings.simplefilter("default")
