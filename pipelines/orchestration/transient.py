"""Whether an error may be gone if a node is tried again: a function of the error and what caused it.

    error ─► what caused it ─► what caused that …       the first that decides, decides

| may be gone      | known by                                                                             |
|------------------|--------------------------------------------------------------------------------------|
| disk full        | DiskFull, ENOSPC, EDQUOT; not EFBIG, which is a limit of the process                 |
| no connection    | ConnectionError, TimeoutError, errors of the network, TensorFlow and gRPC: UNAVAILABLE |
| worker lost      | WorkerLost                                                                           |
| metadata locked  | MLMD: ABORTED, UNAVAILABLE; SQLite: locked; MySQL: lock timeout, deadlock            |

All others are final. Settings, bad input, gates, models that are not blessed, NaN and lost records fail the same way
again; so do the code of a user, and a job that an engine gave up. An error of ours that names its cause (`raise
BadInput(…) from error`) is as its cause is.
"""

import builtins
import errno
import re
import socket

from components import errors
from components.errors import DiskFull, PenstockError, WorkerLost
from pipelines.orchestration.root import disk

_DISK, _CONNECTION, _WORKER, _METADATA = "disk full", "no connection", "worker lost", "metadata locked"
_FINAL: tuple[type[BaseException], ...] = (
    errors.SettingsError, errors.NotBlessed, errors.GateStopped, errors.LedgerMismatch, errors.NotFinite, errors.Late,
    errors.Skipped, errors.Locked, errors.JobFailed, KeyboardInterrupt, SystemExit,
    # Faults of code or data; what they were raised for does not matter.
    ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError, NameError, ImportError,
    MemoryError, NotImplementedError,
)  # fmt: skip
_NETWORK = {
    errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ETIMEDOUT, errno.EHOSTUNREACH,
    errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET, socket.EAI_AGAIN,
}  # fmt: skip
_DEADLINE, _ABORTED, _UNAVAILABLE = 4, 10, 14  # codes of gRPC, which TensorFlow and MLMD use, too
# What libraries have no type or number for. MLMD, which opens SQLite or MySQL; TensorFlow's client of S3.
_TEXTS = (
    (re.compile(r"database is locked|Concurrent writes aborted|errno: (1205|1213)\b"), _METADATA),
    (re.compile(r"errno: (1040|1053|2002|2003|2006|2013)\b"), _CONNECTION),
    (re.compile(r"curlCode: (6|7|28|52|55|56)\b|Unable to connect to endpoint"), _CONNECTION),
)
_RAISED = re.compile(r"^([A-Za-z_][\w.]*): (.*)", re.MULTILINE)  # a line of a traceback that a worker sent as text
_DATAFLOW = "DataflowRuntimeException"  # of Beam: a job that Dataflow gave up
_NUMBER = re.compile(r"^\[Errno (-?\d+)\]")


def reason(error: BaseException) -> str:
    """Returns why an error may be gone a little later, such as "disk full"; empty if it is final."""
    for each in errors.causes(error, _before):
        found = _reason(each)
        if found is not None:
            return found
    return ""


def _before(error: BaseException) -> BaseException | None:
    is_named = isinstance(error, PenstockError) or error.__suppress_context__
    return error.__cause__ if is_named else error.__cause__ or error.__context__


def _reason(error: BaseException) -> str | None:
    """Returns the reason, empty for an error that is final, and None for one that does not decide."""
    if isinstance(error, _FINAL) or type(error).__name__ == _DATAFLOW:
        return ""
    if isinstance(error, PenstockError):
        return _of_ours(error)
    if isinstance(error, OSError):
        return _of_os(error)
    by_worker = _of_worker(str(error))
    return by_worker if by_worker is not None else _of_code(error) or _of_text(str(error))


def _of_ours(error: PenstockError) -> str | None:
    if isinstance(error, DiskFull):
        return "" if disk.REASONS[errno.EFBIG] in str(error) else _DISK
    return _WORKER if isinstance(error, WorkerLost) else None


def _of_os(error: OSError) -> str | None:
    if error.errno in _NETWORK or isinstance(error, ConnectionError | TimeoutError):
        return _CONNECTION
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _DISK
    return None if error.errno in (None, errno.EIO) else ""  # those two: of a library that has no number for its cause


def _of_code(error: BaseException) -> str | None:
    """Returns the reason of an error of a library whose codes are those of gRPC."""
    library = type(error).__module__.partition(".")[0]
    if library == "sqlite3":
        return _METADATA if re.search("locked|busy", str(error)) else None
    if library == "grpc":
        code = getattr(error, "code", None)
        return _CONNECTION if callable(code) and code().value[0] in (_UNAVAILABLE, _DEADLINE) else None
    if getattr(error, "error_code", None) in (_DEADLINE, _ABORTED, _UNAVAILABLE):
        return {"ml_metadata": _METADATA, "tensorflow": _CONNECTION}.get(library)
    return None


def _of_text(text: str) -> str | None:
    if any(os_text in text for os_text in disk.FULL):
        return _DISK
    return next((found for pattern, found in _TEXTS if pattern.search(text)), None)


def _of_worker(text: str) -> str | None:
    """Returns the reason of the last error in a traceback that another process sent as text."""
    for name, message in reversed(_RAISED.findall(text)):
        short = name.rpartition(".")[2]
        kind = getattr(errors, short, None) or getattr(builtins, short, None)
        if isinstance(kind, type) and issubclass(kind, OSError):
            number = _NUMBER.match(message)
            return _reason(OSError(int(number[1]), message) if number else kind(message))
        if isinstance(kind, type) and issubclass(kind, _FINAL):
            return ""
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            return _reason(kind(message)) or ""
    return None
