"""Pipelines that are driven through the command line: forked for speed, or started as a user starts them."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pipelines.orchestration.metadata.store import Execution, Store

PROJECT = Path(__file__).resolve().parents[2]
PENSTOCK = Path(sys.executable).with_name("penstock")
COMMAND = "from pipelines.cli import main; main()"
# Namespaces without network interfaces, in which the folder of the environment is read-only.
OFFLINE = (
    *("unshare", *(() if os.geteuid() == 0 else ("-r",)), "-n", "-m", "sh", "-ec"),
    'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; exec "$@"',
    sys.prefix,
)
LONGEST = 600  # seconds; only a hanging command takes that long


@dataclass(frozen=True)
class Result:
    """A command's exit code and what it printed, standard error included."""

    code: int
    output: str

    def actions(self) -> dict[str, str]:
        """Returns what the plan does with each node, such as "runs" or "up to date"."""
        return {node: action for node, action, _ in self._plan()}

    def reason(self, node: str) -> str:
        """Returns the plan's reason for a node."""
        return next(reason for name, _, reason in self._plan() if name == node)

    def _plan(self) -> list[tuple[str, str, str]]:
        line = r"^  (\w+) +(runs|up to date|kept|looked up|skipped) +(.*?) *$"
        return re.findall(line, self.output, re.MULTILINE)


@dataclass
class Process:
    """A forked command that may still be running."""

    pid: int
    _status: socket.socket
    _output: IO[bytes]
    _result: Result | None = None

    def ended(self) -> Result | None:
        """Returns the result, or None while the command runs."""
        return self._result_within(0)

    def wait(self) -> Result:
        """Waits for the end of the command."""
        result = self._result_within(LONGEST)
        if result is None:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"the command did not end within {LONGEST} s")
        return result

    def stop(self, signum: signal.Signals) -> Result:
        """Sends a signal and waits for the end of the command."""
        os.kill(self.pid, signum)
        return self.wait()

    def _result_within(self, seconds: float) -> Result | None:
        if self._result is None:
            self._status.settimeout(seconds)
            try:
                code = int(self._status.recv(32))
            except (BlockingIOError, TimeoutError):
                return None
            with self._status, self._output:
                self._output.seek(0)
                self._result = Result(code, self._output.read().decode())
        return self._result


@dataclass(frozen=True)
class ForkServer:
    """The process of fork_server.py, which forks commands."""

    control: socket.socket

    def start(self, code: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Process:
        """Starts `python -c CODE ARGUMENTS` and returns at once."""
        status, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        request = {"code": code, "arguments": arguments, "environment": dict(environment), "folder": str(folder)}
        socket.send_fds(self.control, [json.dumps(request).encode()], [output.fileno(), other.fileno()])
        other.close()
        pid = status.recv(32)
        if not pid:
            raise RuntimeError("tests/e2e/fork_server.py has ended; start it by hand to see its error")
        return Process(int(pid), status, output)

    def start_command(self, *arguments: str, before: str = "") -> Process:
        """Starts `penstock ARGUMENTS` and returns at once; `before` is Python code to run first."""
        return self.start(f"{before}\n{COMMAND}", arguments, os.environ, PROJECT)

    def run(self, *arguments: str) -> Result:
        """Runs `penstock ARGUMENTS` to its end."""
        return self.start_command(*arguments).wait()


@dataclass(frozen=True)
class Pipeline:
    """A pipeline root, its data, and the commands to run on them."""

    server: ForkServer
    data: Path
    root: Path
    code: Path = PROJECT  # folder that components/ and pipelines/ are imported from
    environment: dict[str, str] = field(default_factory=dict)
    task: str = "image"
    flags: tuple[str, ...] = ()  # of every run

    def arguments(self, *more: str) -> list[str]:
        """Returns the arguments of `penstock` for this pipeline."""
        return ["run", self.task, "--data", str(self.data), "--root", str(self.root), *self.flags, *more]

    def run(self, *arguments: str, before: str = "") -> Result:
        """Runs `penstock run TASK` to its end; `before` is Python code to run first, which injects a fault."""
        return self.start(*arguments, before=before).wait()

    def start(self, *arguments: str, before: str = "") -> Process:
        """Starts `penstock run TASK` and returns at once."""
        environment = {**os.environ, **self.environment}
        return self.server.start(f"{before}\n{COMMAND}", self.arguments(*arguments), environment, self.code)

    def run_installed(self, *arguments: str) -> Result:
        """Runs the installed `penstock` command in a new process, without network and with a read-only environment."""
        done = subprocess.run(
            [*(OFFLINE if can_be_offline() else ()), str(PENSTOCK), *self.arguments(*arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=PROJECT,
            check=False,
        )
        return Result(done.returncode, done.stdout)

    def store(self) -> Store:
        """Opens the metadata for reading."""
        return Store(self.root / "metadata.db", self.task)

    def newest(self, node: str) -> Execution:
        """Returns the last execution of a node."""
        return next(self.store().executions(node))

    def wait_until_running(self, node: str, process: Process, after: int = 0) -> None:
        """Waits until the metadata says that a node is running, by a later execution than one with a given id."""

        def running() -> bool:
            if not (self.root / "metadata.db").exists():
                return False
            newest = next(self.store().executions(node), None)
            return newest is not None and newest.state == "RUNNING" and newest.id > after

        wait_until(running, process)


def can_be_offline() -> bool:
    """Returns whether this user may create namespaces and mounts here."""
    try:
        return subprocess.run([*OFFLINE, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], process: Process) -> None:
    """Waits for a condition while a command runs."""
    deadline = time.monotonic() + LONGEST
    while not condition():
        if process.ended() or time.monotonic() > deadline:
            raise AssertionError(f"the condition was not met before the command ended: {process.wait()}")
        time.sleep(0.05)
