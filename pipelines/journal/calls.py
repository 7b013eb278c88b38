"""The calls of a run: what MLMD does not know of it.

    <state>/.penstock/runs/<pipeline>/<run id>.json    its calls, oldest first; written whole
                                      <run id>.lock    held by the process of the call that works on the run

A call that has not ended, and whose lock nobody holds, was killed: the kernel releases the lock however a process ends.
"""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import orjson

from components.errors import FlagError, GateStopped, Late, Locked, NotBlessed, PenstockError, Skipped, exit_code_of
from components.redact import redact
from components.storage import durable
from components.storage.location import unreachable
from pipelines.config import RunConfig
from pipelines.journal import run_id

CallState = Literal[
    "running", "succeeded", "nothing due", "not blessed", "gate stopped", "late", "skipped", "cancelled", "failed"
]
_STATES: Mapping[int, CallState] = {
    0: "succeeded",
    NotBlessed.exit_code: "not blessed",
    GateStopped.exit_code: "gate stopped",
    Late.exit_code: "late",
    Skipped.exit_code: "skipped",
    130: "cancelled",
    143: "cancelled",
}
KILLED = "the process of the run ended without a result: it was killed, or its disk was full"
_PATIENCE, _PAUSE = 2.0, 0.01  # seconds; a reader holds the lock for microseconds


@dataclass(frozen=True)
class Call:
    """One command that worked on a run."""

    run: str
    number: int  # from 1
    started: str  # ISO 8601, UTC
    pid: int
    host: str
    pipeline: str = ""
    task: str = ""
    data: str = ""
    root: str = ""
    serving: str = ""
    metadata: str = ""  # URI of a server; empty: a SQLite file in the state folder
    settings: Mapping[str, Any] = field(default_factory=dict)  # that are not the defaults
    command: tuple[str, ...] = ()  # arguments of `penstock`, without secrets; empty if another program started it
    folder: str = ""  # that the command was given in
    span: str = ""  # of a retraining
    state: CallState = "running"
    ended: str = ""
    exit_code: int | None = None
    reason: str = ""  # one sentence: how it ended
    nodes: tuple[Mapping[str, Any], ...] = ()  # id, state, seconds, reason, records of each node
    records: Mapping[str, int] = field(default_factory=dict)  # by split
    metrics: Mapping[str, float] = field(default_factory=dict)
    drift: float | None = None  # largest comparison of the Gate / its threshold; above 1 is a finding
    version: str = ""  # of the model that it pushed, or found pushed
    live: int | None = None  # version that was live at its end
    disk: int | None = None  # bytes of the state folder at its end, if it ran a node


@dataclass(frozen=True)
class Origin:
    """Which run a command belongs to, and what the command was."""

    run: str = field(default_factory=run_id.new)
    command: tuple[str, ...] = ()
    span: str = ""  # of a retraining


def folder_of(notes: Path, pipeline: str) -> Path:
    """Returns the folder of the calls of a pipeline."""
    return notes / "runs" / pipeline


def read(file: Path) -> list[Call]:
    """Returns the calls of a run, oldest first; none if there is no such file."""
    try:
        content = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        return []
    except ValueError:
        raise _damaged(file) from None
    try:  # the run by the name of its file: a record that names another one would lead to its log and its report
        return [
            Call(**{**values, "run": file.stem, "command": tuple(values["command"]), "nodes": tuple(values["nodes"])})
            for values in content
        ]
    except (TypeError, KeyError):
        raise _damaged(file) from None


def newest_first(folder: Path) -> Iterator[list[Call]]:
    """Yields the calls of each run, the run first whose file was written last."""
    for file in files(folder):
        if found := read(file):
            yield found


def files(folder: Path) -> list[Path]:
    """Returns the files of runs, that which was written last first; without those that are being written."""
    found = [each for each in folder.glob("*.json") if not each.name.startswith(durable.TEMPORARY)]
    times = {file: time for file in found if (time := _modified(file)) is not None}
    return sorted(times, key=lambda file: times[file], reverse=True)


def is_held(file: Path) -> bool:
    """Whether a process works on the run of a file now."""
    try:
        with file.with_suffix(".lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return True
        raise
    return False


def state_of(code: int) -> CallState:
    """Returns what an exit code means for a run."""
    return _STATES.get(code, "failed")


def reason_of(code: int, text: str) -> str:
    """Returns the first line of a text, without the state that its exit code says, as a terminal can print it."""
    line = (text.strip().splitlines() or [""])[0].removeprefix(f"{state_of(code)}: ").removeprefix("failed: ")
    return "".join(each if each.isprintable() else " " for each in line)  # a message may quote any data


class OpenCall:
    """A call that has begun; `end` is called once."""

    def __init__(self, file: Path, earlier: Sequence[Call], call: Call) -> None:
        """Takes the file of the run, its calls before, and this one."""
        self._file, self._earlier, self._call = file, earlier, call

    @property
    def run(self) -> str:
        """The run id."""
        return self._call.run

    @property
    def number(self) -> int:
        """Which call of its run this is, from 1."""
        return self._call.number

    @property
    def context(self) -> str:
        """Name of the pipeline_run context in MLMD."""
        return run_id.context_of(self._call.run, self._call.number)

    def begin(self) -> None:
        """Publishes the call."""
        self._write([*self._earlier, self._call])

    def end(self, exit_code: int, reason: str, **result: Any) -> None:
        """Publishes how the call ended; `result` has further fields of a Call."""
        said = reason_of(exit_code, reason)
        state = {"state": state_of(exit_code), "exit_code": exit_code, "reason": said, "ended": now()}
        self._call = replace(self._call, **{**state, **result})
        self._write([*self._earlier, self._call])

    def forget(self) -> None:
        """Withdraws the call: another run has the root, or its flags are rejected, so this one did nothing."""
        if self._earlier:
            self._write(self._earlier)
        else:
            self._file.unlink(missing_ok=True)

    @property
    def has_ended(self) -> bool:
        """Whether `end` was called."""
        return bool(self._call.ended)

    def _write(self, calls: Sequence[Call]) -> None:
        content = orjson.dumps([_redacted(asdict(call)) for call in calls], option=orjson.OPT_INDENT_2)
        durable.write_bytes(self._file, content, private=True)


@contextmanager
def opened(config: RunConfig, origin: Origin) -> Iterator[OpenCall]:
    """Yields a call of a run, published; at the end of the block it has ended, also by an exception."""
    folder = folder_of(config.notes, config.name)
    folder.mkdir(mode=durable.OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
    file = folder / f"{origin.run}.json"
    with _locked(file, origin.run):
        _sweep(folder, origin.run)
        earlier = read(file)
        call = OpenCall(file, earlier, _call(config, origin, len(earlier) + 1))
        call.begin()
        try:
            yield call
        except (Locked, FlagError):
            call.forget()
            raise
        except BaseException as error:
            if not call.has_ended:
                raised = (unreachable(error) if isinstance(error, OSError) else None) or error
                with suppress(OSError):  # a full disk; the error itself is what matters
                    call.end(exit_code_of(raised), str(raised) or type(raised).__name__)
            raise


def now() -> str:
    """Returns the time as the calls have it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@contextmanager
def _locked(file: Path, run: str) -> Iterator[None]:
    """Holds the lock of a run, and deletes it at the end."""
    path, end = file.with_suffix(".lock"), time.monotonic() + _PATIENCE
    while (lock := _acquired(path)) is None:
        if time.monotonic() > end:
            raise Locked(f"run {run}: another process works on it; wait until it has ended, or use another --run-id")
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _acquired(path: Path) -> int | None:
    """Returns a descriptor that holds the lock; None if another process holds it, or has just deleted its file."""
    descriptor = durable.owner_only(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    os.close(descriptor)
    return None


def _sweep(folder: Path, run: str) -> None:
    """Deletes what killed calls left, of this run and of others on which nobody works."""
    durable.sweep(folder, f"{run}.json")
    for lock in folder.glob("*.lock"):
        file = lock.with_suffix(".json")
        if lock.name != f"{run}.lock" and not is_held(file):
            durable.sweep(folder, file.name)
            lock.unlink(missing_ok=True)


def _call(config: RunConfig, origin: Origin, number: int) -> Call:
    return Call(
        run=origin.run,
        number=number,
        started=now(),
        pid=os.getpid(),
        host=socket.gethostname(),
        pipeline=config.name,
        task=config.task.name,
        data=config.data,
        root=str(config.root),
        serving=str(config.serving),
        metadata=str(config.server or ""),
        settings=config.settings.model_dump(mode="json", exclude_defaults=True),
        command=origin.command,
        folder=str(Path.cwd()),
        span=origin.span,
    )


def _modified(file: Path) -> int | None:
    """Returns when a file was written, in nanoseconds; None if it was withdrawn meanwhile."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _redacted(value: Any) -> Any:
    """Returns a value with *** instead of secrets in all its texts."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _redacted(each) for key, each in value.items()}
    return [_redacted(each) for each in value] if isinstance(value, list | tuple) else value


def _damaged(file: Path) -> PenstockError:
    return PenstockError(f"{file}: the record of a run cannot be read; expected what its run wrote: delete the file")
