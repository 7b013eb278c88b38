"""Starts, shows and stops the engine: job manager, task managers, Beam's job server, all on this machine.

start ─► install ─► workers ─► processes, each with its log ─► all slots there and the job server answers ─► state
stop  ─► SIGTERM to exactly these processes and the workers they started ─► wait ─► SIGKILL last
"""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from components.errors import PenstockError, SettingsError
from components.storage import durable
from pipelines.engine import boot, install, java, places
from pipelines.engine.places import Process, State
from pipelines.engine.rest import Flink, Unreachable

_START_SECONDS = 90
_STOP_SECONDS = 20
_POLL = 0.2
_LOG_LINES = 12
Say = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How large the engine is."""

    task_managers: int = 2
    slots: int = 0  # per task manager; 0: one per core


def start(size: Size, say: Say) -> State:
    """Starts the engine, and returns its state when it is ready for jobs."""
    if (running := places.read()) is not None:
        if alive(running):
            raise SettingsError(
                f"an engine runs already ({running.endpoint}); use it, or stop it with `penstock engine stop flink`"
            )
        stop(say)
    command, installed = install.java(), install.ensure(say)
    folder = places.run()
    folder.mkdir(mode=durable.OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
    (folder / "logs").mkdir(exist_ok=True)
    _remove_temporary_files()  # of an engine that was killed
    layout = java.Layout(command, install.own_jar(installed), folder, _free_ports(), size.slots or os.cpu_count() or 1)
    java.write_configuration(layout)
    started: list[Process] = []
    try:
        return _start_processes(layout, size, started, say)
    except BaseException:
        _end(started)
        raise


def _start_processes(layout: java.Layout, size: Size, started: list[Process], say: Say) -> State:
    names = [f"taskmanager-{number + 1}" for number in range(size.task_managers)]
    commands = {
        "jobmanager": java.job_manager(layout),
        **{name: java.task_manager(layout, name) for name in names},
        "jobserver": java.job_server(layout),
    }
    for name, command in commands.items():
        started.append(_spawn(name, command, layout.folder / "logs" / f"{name}.log"))
    ports = layout.ports
    state = State(
        rest=f"http://{java.HOST}:{ports.rest}",
        endpoint=f"{java.HOST}:{ports.job}",
        artifact_endpoint=f"{java.HOST}:{ports.artifact}",
        task_managers=size.task_managers,
        slots=layout.slots,
        processes=tuple(started),
    )
    _wait_until_ready(state, layout.folder / "logs")
    places.write(state)
    say(
        f"flink {places.FLINK} with {size.task_managers} task managers of {layout.slots} slots: "
        f"job server {state.endpoint}, web interface {state.rest}, logs in {layout.folder / 'logs'}"
    )
    return state


def stop(say: Say) -> None:
    """Stops the engine that was started here, if there is one, and says which processes it ended."""
    state = places.read()
    if state is None:
        say(f"no engine to stop: {places.run()} has no state.json")
        return
    for name, pid, how in _end(state.processes):
        say(f"{name} (pid {pid}): {how}")
    places.forget()
    _remove_temporary_files()
    say(f"stopped; logs are kept in {places.run() / 'logs'}")


def _remove_temporary_files() -> None:
    for name in ("tmp", "artifacts"):
        durable.remove(places.run() / name)


def alive(state: State) -> list[Process]:
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
    return Process(name, child.pid, psutil.Process(child.pid).create_time())


def _wait_until_ready(state: State, logs: Path) -> None:
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


def _ready(state: State, flink: Flink) -> bool:
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
    try:
        found = psutil.Process(process.pid)
        same = found.create_time() == process.started and found.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return found if same else None


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
    """Returns ports that are free now; all are held until all are known, so no two are equal."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(6)]
        for each in held:
            each.bind((java.HOST, 0))
        return java.Ports(*(each.getsockname()[1] for each in held))
