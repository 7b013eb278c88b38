"""Folders of the engine, and the state file of the one that runs.

    <home>/flink-1.19.3/    what is installed once: lib/ (Flink), beam/ (Beam's runner and job server)
    <home>/workers/         Python environments of workers, one per code and requirements
    <run>/                  the engine that runs: state.json, conf/, logs/

`<home>` is `.tools/engine` in a checkout, else a folder in the user's cache. `<run>` is `<home>/run`, or the folder
that PENSTOCK_ENGINE names: then several engines can run beside each other.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from components.errors import SettingsError
from components.storage import durable
from pipelines.config import HOME

FLINK = "1.19.3"
BEAM = "2.62.0"
VARIABLE = "PENSTOCK_ENGINE"
START = "start it with `penstock engine start flink`"


def home() -> Path:
    """Returns the folder of what is installed."""
    if (HOME / "pyproject.toml").exists():
        return HOME / ".tools" / "engine"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "penstock" / "engine"


def installed() -> Path:
    """Returns the folder of Flink and Beam's runner."""
    return home() / f"flink-{FLINK}"


def run() -> Path:
    """Returns the folder of the engine that runs."""
    named = os.environ.get(VARIABLE)
    return Path(named).absolute() if named else home() / "run"


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Waits until no other process installs something into the engine's home."""
    from filelock import FileLock

    home().mkdir(parents=True, exist_ok=True)
    with FileLock(home() / ".lock"):
        yield


@contextmanager
def one_command() -> Iterator[None]:
    """Waits until no other `penstock engine` starts or stops the engine; its folder is for its owner alone."""
    from filelock import FileLock

    run().mkdir(parents=True, exist_ok=True)
    run().chmod(durable.OWNER_ONLY_FOLDER)  # logs contain options of jobs
    with FileLock(run() / ".lock"):
        yield


@dataclass(frozen=True)
class Process:
    """One process of the engine. Its start distinguishes it from a later process with the same number."""

    name: str
    pid: int
    started: str  # boot of the machine and ticks since then: seconds since the epoch move when the clock is set


@dataclass(frozen=True)
class EngineState:
    """The engine that runs: where it listens, and its processes."""

    rest: str  # http://127.0.0.1:PORT of Flink's job manager
    endpoint: str  # 127.0.0.1:PORT of Beam's job server
    artifact_endpoint: str
    task_managers: int
    slots: int  # per task manager
    processes: tuple[Process, ...]


def read() -> EngineState | None:
    """Returns the state of the engine, or None if none was started."""
    file = run() / "state.json"
    if not file.exists():
        return None
    try:
        content: dict[str, Any] = orjson.loads(file.read_bytes())
        return EngineState(**{**content, "processes": tuple(Process(**each) for each in content["processes"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SettingsError(
            f"{file}: not the state of an engine ({error}); end its processes, then delete the file"
        ) from None


def write(state: EngineState) -> None:
    """Publishes the state."""
    durable.write_bytes(run() / "state.json", orjson.dumps(asdict(state), option=orjson.OPT_INDENT_2))


def forget() -> None:
    """Removes the state file."""
    (run() / "state.json").unlink(missing_ok=True)
