"""All errors that Penstock raises on purpose, and their exit codes.

    PenstockError              1  internal error, in Penstock or in a library
    ├── WorkerLost             1  a worker process died, or an engine's server stopped answering
    ├── JobFailed              1  an engine gave a job up, after it had tried it again by itself
    ├── SettingsError          2  a flag, setting, settings file or name is invalid
    │   └── FlagError             flags of a command that its pipeline cannot follow: it is rejected, and is no run
    ├── NotBlessed             3  the model was trained and did not reach its metric thresholds
    ├── BadInput               4  the data is missing, empty, unreadable, or too much of it is bad
    ├── GateStopped            5  the data does not satisfy its schema, or cannot be learned from
    ├── LedgerMismatch         6  records in ≠ records out + quarantined
    ├── DiskFull               7  the disk is full
    ├── NotFinite              8  training diverged: a loss or a weight is not finite
    ├── Late                   9  a span that should be there is missing
    ├── Skipped               10  the retraining of a span was left out, as the settings ask
    └── Locked                75  another run uses the pipeline root
    Cancelled            130/143  Ctrl-C / SIGTERM

A message says what happened, what was expected and what to do.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar


class PenstockError(Exception):
    """An error whose message explains it; no traceback is shown."""

    exit_code: ClassVar[int] = 1


class WorkerLost(PenstockError):
    """A worker process died, or an engine's server stopped answering."""


class JobFailed(PenstockError):
    """An engine gave a job up, after it had tried it again by itself."""


class SettingsError(PenstockError):
    """A setting, flag or name is unknown or out of range."""

    exit_code = 2


class FlagError(SettingsError):
    """Flags of a command that its pipeline cannot follow: the command is rejected, and is no run."""


class NotBlessed(PenstockError):
    """The model is below its metric thresholds, or worse than the baseline model."""

    exit_code = 3


class BadInput(PenstockError):
    """The input is missing, empty or unreadable, or too much of it was quarantined."""

    exit_code = 4


class GateStopped(PenstockError):
    """The data does not satisfy its schema, cannot be learned from, or differs too much from the live model's."""

    exit_code = 5

    def __init__(self, message: str, drift: Mapping[str, Any] | None = None) -> None:
        """Takes the message, and how the new spans were compared, for the report."""
        super().__init__(message)
        self.drift = drift


class LedgerMismatch(PenstockError):
    """A node lost or added records."""

    exit_code = 6


class DiskFull(PenstockError):
    """The disk of the pipeline root is full."""

    exit_code = 7


class NotFinite(PenstockError):
    """Training diverged: a loss or a weight became NaN or infinite."""

    exit_code = 8


class Late(PenstockError):
    """A span that should be there by the calendar is missing."""

    exit_code = 9


class Skipped(PenstockError):
    """The retraining of a span was left out: its span is late, or older than that of the live model."""

    exit_code = 10


class Locked(PenstockError):
    """Another run uses the same pipeline root."""

    exit_code = 75


class Cancelled(KeyboardInterrupt):
    """The run was stopped by a signal. Not an `Exception`, because libraries catch those while they clean up."""

    def __init__(self, signum: int, note: str = "") -> None:
        super().__init__("; ".join(filter(None, [f"stopped by {signal.Signals(signum).name}", note])))
        self.signum, self.note = signum, note


def _before(error: BaseException) -> BaseException | None:
    return error.__cause__ or error.__context__


def causes(
    error: BaseException | None, before: Callable[[BaseException], BaseException | None] = _before
) -> Iterator[BaseException]:
    """Yields an error, what caused it, and so on; each once, as `raise error from error` makes a circle.

    Args:
        error: the error.
        before: returns what caused an error.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = before(error)


def exit_code_of(error: BaseException) -> int:
    """Returns the exit code of the process for `error`."""
    if isinstance(error, Cancelled):
        return 128 + error.signum
    if isinstance(error, PenstockError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    return PenstockError.exit_code
