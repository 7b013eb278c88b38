"""Every error that Penstock raises on purpose, and the exit code each one ends in.

    PenstockError              1  internal: a fault of ours or of a library
    ├── SettingsError          2  a flag, settings file or name that cannot be used
    ├── NotBlessed             3  the model was trained and did not pass its bars
    ├── BadInput               4  the data cannot be read, is empty, or too much of it is bad
    ├── GateStopped            5  the data was read and must not be trained on
    ├── LedgerMismatch         6  records in ≠ records out + quarantined
    ├── DiskFull               7  no room for metadata or artifacts
    └── Locked                75  another run holds the pipeline root
    Cancelled            130/143  Ctrl-C / SIGTERM

A message says what happened, what was expected and how to fix it.
"""

import signal
from typing import ClassVar


class PenstockError(Exception):
    """A failure that is explained by its message alone; no traceback is shown for it."""

    exit_code: ClassVar[int] = 1


class SettingsError(PenstockError):
    """A setting, flag or name is unknown or out of range."""

    exit_code = 2


class NotBlessed(PenstockError):
    """The model is worse than its bars or than the model that serves now."""

    exit_code = 3


class BadInput(PenstockError):
    """The input is missing, empty, unreadable or bad beyond its budget."""

    exit_code = 4


class GateStopped(PenstockError):
    """The data breaks its schema or cannot be learned from."""

    exit_code = 5


class LedgerMismatch(PenstockError):
    """A node lost or invented records."""

    exit_code = 6


class DiskFull(PenstockError):
    """The disk of the pipeline root has no room left."""

    exit_code = 7


class Locked(PenstockError):
    """Another run works on the same pipeline root."""

    exit_code = 75


class Cancelled(KeyboardInterrupt):
    """The run was stopped by a signal. Like Ctrl-C no `Exception`: libraries swallow those while they clean up."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


def exit_code_of(error: BaseException) -> int:
    """Returns the process exit code that `error` stands for."""
    if isinstance(error, Cancelled):
        return 128 + error.signum
    if isinstance(error, PenstockError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    return PenstockError.exit_code
