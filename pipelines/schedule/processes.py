"""The processes of a schedule: starts retrainings, finds them again, stops them.

A process is known by the boot of this machine, its id and its start, which no clock that is set back changes.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from components import helper_process
from components.storage import durable

_COMMAND = "from pipelines.cli import main; main()"
_SETTINGS = "PENSTOCK_SETTINGS"  # a schedule names its settings file itself, whatever the scheduler was started with
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STATE, _START = 0, 19  # among the fields of /proc/PID/stat that follow the name
_ENDED = {"Z", "X"}


class Child(Protocol):
    """A process that this one has started."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def poll(self) -> int | None:
        """Returns the exit code, or minus the number of the signal that ended it; None while it runs."""

    def wait(self, timeout: float) -> int:
        """Waits for the end and returns the exit code; raises TimeoutExpired after some seconds."""


@dataclass(frozen=True)
class RetrainCommand:
    """A call of `penstock`."""

    arguments: tuple[str, ...]
    folder: Path  # working folder
    output: Path


Start = Callable[[RetrainCommand], Child]


def start(command: RetrainCommand) -> Child:
    """Starts a command in a process group of its own, so that Ctrl-C and the end of this process leave it alone."""
    environment = {name: value for name, value in os.environ.items() if name != _SETTINGS}
    command.output.parent.mkdir(mode=durable.OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
    with open(command.output, "ab", opener=durable.owner_only) as output:
        return subprocess.Popen(
            helper_process.command(_COMMAND, *command.arguments),
            cwd=command.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip


def identity(pid: int) -> str:
    """Returns what distinguishes a process from all others, also those that have its id later; empty if it ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()  # the name before it may contain anything
    return "" if fields[_STATE] in _ENDED else f"{_BOOT.read_text().strip()}:{pid}:{fields[_START]}"


def own_identity() -> str:
    """Returns the identity of this process."""
    return identity(os.getpid())


def is_alive(process: str) -> bool:
    """Whether the process with this identity still runs."""
    return bool(process) and identity(int(process.split(":")[1])) == process


def send(process: str, signum: signal.Signals) -> None:
    """Sends a signal to a process, if it still runs."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process.split(":")[1]), signum)


def last_lines(output: Path, size: int = 1 << 16) -> Sequence[str]:
    """Returns the last lines that a command has printed."""
    try:
        with output.open("rb") as file:
            file.seek(max(output.stat().st_size - size, 0))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return ()
