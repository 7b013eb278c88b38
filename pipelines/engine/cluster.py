"""Starts, shows and stops the engine: job manager, task managers, Beam's job server, all on this machine.

start ─► install ─► processes, each with its log and at once in the state ─► all slots there, the job server answers
stop  ─► SIGTERM to exactly these processes and the workers they started ─► wait ─► SIGKILL last
"""

import contextlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path

import psutil

from components.errors import PenstockError, SettingsError
from components.storage import durable
from components.training import interrupt
from pipelines.engine import boot, install, java, places
from pipelines.engine.places import EngineState, Process
from pipelines.engine.rest import Flink, Unreachable

_START_SECONDS = 90
_STOP_SECONDS = 20
_POLL = 0.2
_LOG_LINES = 12
_GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")  # the ports of whoever asks for any port
_LOWEST, _HIGHEST, _TRIES = 10_000, 32_768, 100  # ports of the engine; how many are tried
Say = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How large the engine is."""

    task_managers: int = 2
    slots: int = 0  # per task manager; 0: one per core


def start(size: Size, say: Say) -> EngineState:
    """Starts the engine, and returns its state when it is ready for jobs."""
    with places.one_command(), interrupt.raised():
        return _start(size, say)


def _start(size: Size, say: Say) -> EngineState:
    if (running := places.read()) is not None:
        if alive(running):
            raise SettingsError(
                f"an engine runs already ({running.endpoint}); use it, or stop it with `penstock engine stop flink`"
            )
        _stop(running, say)
    command, installed = install.java(), install.ensure(say)
    folder = places.run()
    (folder / "logs").mkdir(exist_ok=True)
    _remove_temporary_files()  # of an engine that was killed
    layout = java.ClusterFiles(
        command, install.own_jar(installed), folder, _free_ports(), size.slots or os.cpu_count() or 1
    )
    java.write_configuration(layout)
    try:
        return _start_processes(layout, size, say)
    except BaseException:
        with interrupt.ignored():
            if (state := places.read()) is not None:
                _end(state.processes)
                _forget(state)
        raise


def _start_processes(layout: java.ClusterFiles, size: Size, say: Say) -> EngineState:
    names = [f"taskmanager-{number + 1}" for number in range(size.task_managers)]
    commands = {
        "jobmanager": java.job_manager(layout),
        **{name: java.task_manager(layout, name) for name in names},
        "jobserver": java.job_server(layout),
    }
    ports = layout.ports
    state = EngineState(
        rest=f"http://{java.HOST}:{ports.rest}",
        endpoint=f"{java.HOST}:{ports.job}",
        artifact_endpoint=f"{java.HOST}:{ports.artifact}",
        task_managers=size.task_managers,
        slots=layout.slots,
        processes=(),
    )
    for name, command in commands.items():
        with interrupt.noted():  # a process that is in no state could not be stopped
            spawned = _spawn(name, command, layout.folder / "logs" / f"{name}.log")
            state = replace(state, processes=(*state.processes, spawned))
            places.write(state)
    _wait_until_ready(state, layout.folder / "logs")
    say(
        f"flink {places.FLINK} with {size.task_managers} task managers of {layout.slots} slots: "
        f"job server {state.endpoint}, web interface {state.rest}, logs in {layout.folder / 'logs'}"
    )
    return state


def stop(say: Say) -> None:
    """Stops the engine that was started here, if there is one, and says which processes it ended."""
    if not places.run().exists() or places.read() is None:
        say(f"no engine to stop: {places.run()} has no state.json")
        return
    with places.one_command():
        if (state := places.read()) is not None:
            _stop(state, say)


def _stop(state: EngineState, say: Say) -> None:
    for name, pid, how in _end(state.processes):
        say(f"{name} (pid {pid}): {how}")
    _forget(state)
    _remove_temporary_files()
    say(f"stopped; logs are kept in {places.run() / 'logs'}")


def _forget(state: EngineState) -> None:
    """Removes the state; raises PenstockError, and keeps it, while a process of it runs."""
    if left := alive(state):
        names = ", ".join(f"{each.name} (pid {each.pid})" for each in left)
        raise PenstockError(f"{names} of the engine did not end; run `penstock engine stop flink` again")
    places.forget()


def _remove_temporary_files() -> None:
    for name in ("tmp", "artifacts"):
        durable.remove(places.run() / name)


def alive(state: EngineState) -> list[Process]:
    """Returns the processes of an engine that still run."""
    return [each for each in state.processes if _find(each) is not None]


def _spawn(name: str, command: Sequence[str], log: Path) -> Process:
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent.parent,
            env={**os.environ, boot.LOGS: str(log.parent), boot.NAME: name},
            start_new_session=True,  # Ctrl-C in the terminal is not for the engine
        )
    return identified(name, child.pid)


def identified(name: str, pid: int) -> Process:
    """Returns a process that runs, with what distinguishes it from all others."""
    return Process(name, pid, _start_of(pid))


def _start_of(pid: int) -> str:
    """Returns when a process was started, by a clock that nobody sets; empty if it has ended."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        if fields[0] != "Z":
            return f"{Path('/proc/sys/kernel/random/boot_id').read_text(encoding='utf-8').strip()} {fields[19]}"
    return ""


def _wait_until_ready(state: EngineState, logs: Path) -> None:
    flink, end = Flink(state.rest), time.monotonic() + _START_SECONDS
    while not _ready(state, flink):
        for each in state.processes:
            if _find(each) is None:
                raise PenstockError(
                    f"{each.name} of the engine ended while it started:\n{_last_lines(logs, each.name)}"
                )
        if time.monotonic() > end:
            raise PenstockError(f"the engine was not ready after {_START_SECONDS} s; see the logs in {logs}")
        time.sleep(_POLL)


def _ready(state: EngineState, flink: Flink) -> bool:
    with contextlib.suppress(Unreachable):
        return flink.slots().total == state.slots * state.task_managers and listens(state.endpoint)
    return False


def listens(endpoint: str) -> bool:
    """Whether something accepts connections at host:port."""
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return True
    except (OSError, ValueError):
        return False


def _last_lines(logs: Path, name: str) -> str:
    lines = (logs / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([*lines[-_LOG_LINES:], f"(the whole log: {logs / name}.log)"])


def _find(process: Process) -> psutil.Process | None:
    """Returns a process of the engine, if it still runs and its number was not given to another one."""
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(process.pid)
        if process.started and _start_of(process.pid) == process.started:
            return found
    return None


def _end(processes: Sequence[Process]) -> list[tuple[str, int, str]]:
    """Ends processes and the workers that they started; returns name, pid and how each one ended."""
    named = [(each.name, found) for each in processes if (found := _find(each)) is not None]
    workers = [("worker", child) for _, parent in named for child in _children(parent)]
    everything = [*reversed(named), *workers]
    for _, process in everything:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, left = psutil.wait_procs([process for _, process in everything], timeout=_STOP_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=_STOP_SECONDS)
    killed = {process.pid for process in left}
    return [(name, process.pid, "killed" if process.pid in killed else "ended") for name, process in everything]


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _free_ports() -> java.Ports:
    """Returns ports that are free now, below those that the kernel gives to others while Java starts."""
    with contextlib.ExitStack() as stack:
        tried = random.sample(range(_LOWEST, _end_of_ports()), _TRIES)
        free = (port for port in tried if _is_bound(stack.enter_context(socket.socket()), port))
        return java.Ports(*islice(free, len(fields(java.Ports))))


def _is_bound(held: socket.socket, port: int) -> bool:
    with contextlib.suppress(OSError):
        held.bind((java.HOST, port))
        return True
    return False


def _end_of_ports() -> int:
    """Returns the first port that the kernel gives to whoever asks for any port, if it leaves enough below."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        given = int(_GIVEN.read_text().split()[0])
        if given >= _LOWEST + _TRIES:
            return min(given, _HIGHEST)
    return _HIGHEST
