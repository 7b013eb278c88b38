"""Sends everything that libraries print to a log file.

C++ code writes to file descriptors, so the descriptors are redirected; our own display gets a copy of the old ones.
"""

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "KERAS_BACKEND": "tensorflow",
    "GRPC_VERBOSITY": "ERROR",
}


def prepare_environment() -> None:
    """Sets environment variables that libraries read at import; call it before importing them."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Google's clients warn once per package, a dozen times; the locked versions need Python 3.10.
    warnings.filterwarnings("ignore", message="You are using a non-supported Python version")


@contextlib.contextmanager
def diverted(log: Path) -> Iterator[TextIO]:
    """Redirects standard output and error to `log`; yields a stream that still reaches the user."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    user = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="replace")
    with log.open("ab", buffering=0) as sink:
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    try:
        _log_to_stderr()
        yield user
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in saved:
            os.close(descriptor)
        user.close()


def _log_to_stderr() -> None:
    from absl import logging as absl_logging

    absl_logging.set_verbosity(absl_logging.INFO)
    absl_logging.use_absl_handler()
    logging.captureWarnings(capture=True)
    warnings.simplefilter("default")
