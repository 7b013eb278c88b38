"""A process of our own that works beside this one, started once and asked often.

    this process ── pipe: question, answers ──► serve(pipe) there
                 ── stdin: stays open ────────► when it is closed, or this process is gone, that one ends at once

Not forked: Beam and TensorFlow have threads, whose locks a fork would take along. Nor by `multiprocessing`, which runs
the main program once more.
"""

import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from components import refs

# Where to look for modules is told when Python is up: what a user calls io.py must not be taken for Python's own. So
# Python need not find that out itself (-S), which takes as long as to start it.
_PROGRAM = "import sys; sys.path[:] = {!r}; from {} import run; run({}, {!r})"


class Helper:
    """The process, seen from here; it may take half a second until it answers."""

    def __init__(self, serve: str, environment: Mapping[str, str] | None = None) -> None:
        """Starts a process.

        Args:
            serve: Reference of what it runs, such as "package.module:function", with its end of the pipe.
            environment: What it is told beside what this process was.
        """
        self.pipe, theirs = multiprocessing.Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _PROGRAM.format(sys.path, __name__, theirs.fileno(), serve)],
            env={**os.environ, **(environment or {})},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()

    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ended_with(self) -> int:
        """Returns its exit code, when its end of the pipe is closed."""
        return self._process.wait()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()
        self.pipe.close()


def run(descriptor: int, serve: str) -> None:
    """What the process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pipe: Connection[Any, Any] = Connection(descriptor)
    with contextlib.suppress(EOFError, ConnectionError):  # when no one asks any more
        refs.load(serve)(pipe)


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)
