"""Worker processes: started once, called often, and ended with this process.

    this process ── pipe: function and arguments, pickled ─────► worker: runs function(*arguments)
                 ◄─ pipe: each value that it yields, its end or its error: bytes and JSON, never pickled
                 ── stdin stays open ──────────────────────────► when it closes, the worker exits

Not `multiprocessing` or `concurrent.futures`: a process that they spawn runs the main program again and searches the
working folder first, so that a user's `json.py` is imported instead of Python's. Not forked: Beam and TensorFlow have
threads, whose locks a fork would copy in a locked state.
"""

import contextlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from components import errors, helper_process, refs
from components.errors import PenstockError, WorkerLost

# The first byte of what a worker sends. A worker that reads a crafted file may be taken over: nothing that it sends is
# unpickled.
_BYTES, _JSON, _QUESTION, _END, _ERROR = b"b", b"j", b"q", b".", b"e"


class WorkerDied(WorkerLost):
    """A worker process ended before it had answered."""

    def __init__(self, code: int) -> None:
        self.code = code
        by = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        memory = ", possibly out of memory" if code == -signal.SIGKILL else ""
        super().__init__(f"a worker process of the ingest died ({by}{memory}); nothing was published: run again")


class WorkerFailed(PenstockError):
    """A worker process raised an error that is not one of ours, or sent an invalid message."""


class WorkerProcess:
    """A worker process, as seen from the process that started it."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Starts the process, with `environment` added to the variables of this one."""
        self._pipe, theirs = Pipe()
        self._process = subprocess.Popen(
            helper_process.command(f"from {__name__} import serve; serve({theirs.fileno()})"),
            env={**os.environ, **(environment or {})},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()

    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def call(self, function: str, *arguments: object, answer: Callable[..., Any] | None = None) -> Iterator[Any]:
        """Yields what a generator function yields in the worker; raises what it raises there.

        Args:
            function: Reference of the function, such as "package.module:function".
            arguments: What it is called with.
            answer: Answers the questions that the function puts to `ask`.

        Raises:
            WorkerDied: The process ended before the function did.
        """
        self._exchange(self._pipe.send, (function, arguments))
        while True:
            message: bytes = self._exchange(self._pipe.recv_bytes)
            kind, content = message[:1], message[1:]
            if kind == _END:
                return
            if kind == _BYTES:
                yield content
            elif kind == _QUESTION and answer is not None:
                self._exchange(self._pipe.send, answer(*_parsed(content)))
            elif kind == _ERROR:
                raise _error(_parsed(content))
            else:
                yield _parsed(content)

    def _exchange(self, transfer: Callable[..., Any], *message: object) -> Any:
        try:
            return transfer(*message)
        except (EOFError, OSError):  # also in the middle of a message
            self._process.kill()
            raise WorkerDied(self._process.wait()) from None

    def kill(self) -> None:
        """Ends the process, also while a call is waiting for it; the call raises WorkerDied."""
        self._process.kill()

    def close(self) -> None:
        """Ends the process and frees what it used here."""
        self._process.kill()
        self._process.communicate()
        self._pipe.close()


class Pool:
    """Worker processes that are kept for the next call: starting one takes 0.1 s, with Arrow 0.5 s."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._idle: list[WorkerProcess] = []
        self._leased: set[WorkerProcess] = set()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, count: int) -> None:
        """Starts workers that will be needed soon, up to `count` idle ones."""
        while len(self._idle) < count:
            self._idle.append(WorkerProcess(self._environment))

    @contextlib.contextmanager
    def lease(self) -> Iterator[WorkerProcess]:
        """Lends an idle worker, or a new one; after an error it is ended, as its reply may be half read."""
        worker = self._take()
        self._leased.add(worker)
        try:
            yield worker
        except BaseException:
            worker.close()
            raise
        finally:
            self._leased.discard(worker)
        self._idle.append(worker)

    def _take(self) -> WorkerProcess:
        while True:
            try:
                worker = self._idle.pop()  # not checked first: another thread may be faster
            except IndexError:
                return WorkerProcess(self._environment)
            if worker.alive():
                return worker
            worker.close()

    def kill(self) -> None:
        """Ends the workers that are busy; their calls raise WorkerDied."""
        for worker in list(self._leased):
            worker.kill()

    def close(self) -> None:
        """Ends the idle workers."""
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """Leaves the workers to the process that this one was forked from: a pipe has one reader."""
        self._idle.clear()


_parent: "Connection[Any, Any]"  # in a worker: the pipe to the process that started it


def serve(descriptor: int) -> None:
    """Runs the functions that the process at the other end of the pipe asks for, until that process ends."""
    global _parent  # noqa: PLW0603 - a worker has one
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    _parent = Connection(descriptor)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            _parent.send_bytes(_outcome(_parent.recv_bytes()))


def ask(*question: object) -> Any:
    """Returns the answer of the process that started this worker; see `WorkerProcess.call`."""
    _parent.send_bytes(_QUESTION + json.dumps(question).encode())
    return _parent.recv()


def _outcome(request: bytes) -> bytes:
    """Runs a request and sends what it yields; returns its end or its error."""
    try:
        function, arguments = pickle.loads(request)  # noqa: S301 - from the process that started this one
        for value in refs.load(function)(*arguments):
            _parent.send_bytes(_BYTES + value if isinstance(value, bytes) else _JSON + json.dumps(value).encode())
    except Exception as error:  # noqa: BLE001 - any error is raised by the caller, in the other process
        return _ERROR + json.dumps(_described(error)).encode()
    return _END


def _described(error: Exception) -> list[Any]:
    """Returns the type of an error and what it is made from."""
    if isinstance(error, OSError) and error.errno:
        return ["OSError", error.errno, error.strerror, os.fsdecode(error.filename) if error.filename else None]
    return [type(error).__name__, str(error)]


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise WorkerFailed("a worker process of the ingest sent an invalid message; nothing was published") from None


def _error(described: Any) -> Exception:
    """Returns the error that a worker described: one of ours, an OSError, or its type and message."""
    name, *content = described
    if name == "OSError":
        return OSError(*content)
    kind = getattr(errors, str(name), None)
    if isinstance(kind, type) and issubclass(kind, PenstockError):
        return kind(*content)
    return WorkerFailed(f"{name}: {content[0]}")


def _exit_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)
