"""Runs a command with a time limit: at its end, the whole process group is killed."""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from components.training import interrupt

_KEPT = 4096  # bytes of what the command prints, the last ones
_DRAIN = 1.0  # seconds to wait for the last output; what a command leaves behind may keep it open


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None  # minus the number of the signal that ended it; None: it was stopped by the limit
    output: str  # the last of what it printed, standard error included


def run(
    command: Sequence[str], content: bytes, environment: Mapping[str, str], folder: Path | None, seconds: float
) -> Ended:
    """Runs a command with bytes on its standard input; raises OSError if it cannot be started."""
    output, process = bytearray(), None
    try:
        with interrupt.noted():  # a signal while it starts must not leave a process that is not known
            process = _started(command, content, environment, folder)
            reader = threading.Thread(target=_drain, args=(process.stdout, output), daemon=True)
            reader.start()
        code: int | None = _wait(process, seconds)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    reader.join(_DRAIN)
    return Ended(code, bytes(output).decode(errors="replace"))


def _started(
    command: Sequence[str], content: bytes, environment: Mapping[str, str], folder: Path | None
) -> "subprocess.Popen[bytes]":
    with os.fdopen(os.memfd_create("notification"), "wb+", buffering=0) as given:  # a pipe could be full, a disk too
        given.write(content)
        given.seek(0)
        return subprocess.Popen(
            command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=folder,
            start_new_session=True,
        )  # fmt: skip


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> int:
    return process.wait(seconds)


def _drain(stream: IO[bytes], output: bytearray) -> None:
    with stream:
        while part := os.read(stream.fileno(), 1 << 16):
            output += part
            del output[:-_KEPT]
