"""Start and stop of the engine's processes, with a program in place of Java that only waits."""

import os
import signal
from pathlib import Path

import filelock
import psutil
import pytest

from components.errors import Cancelled, PenstockError
from pipelines.engine import cluster, install, places


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without an engine, whose Java waits."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexec sleep 600\n")
    java.chmod(0o755)
    monkeypatch.setattr(install, "java", lambda: str(java))
    monkeypatch.setattr(install, "ensure", lambda _: tmp_path)
    monkeypatch.setenv(places.VARIABLE, str(tmp_path / "run"))
    return tmp_path


def state() -> places.EngineState:
    """Returns the state of the engine, which must exist."""
    found = places.read()
    assert found is not None
    return found


def test_every_process_is_in_the_state_before_the_engine_is_ready(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that is killed can be stopped, no second start runs beside it, and its folder is private."""
    (machine / "run").mkdir(mode=0o755)

    def look(*_: object) -> None:
        names = [each.name for each in cluster.alive(state())]
        assert names == ["jobmanager", "taskmanager-1", "taskmanager-2", "jobserver"]
        with pytest.raises(filelock.Timeout):
            filelock.FileLock(machine / "run" / ".lock").acquire(timeout=0)

    monkeypatch.setattr(cluster, "_wait_until_ready", look)
    cluster.start(cluster.Size(2, 1), print)
    started = state()
    said: list[str] = []
    cluster.stop(said.append)

    assert (machine / "run").stat().st_mode & 0o777 == 0o700
    assert cluster.alive(started) == []
    assert [line.split()[0] for line in said] == [
        "jobserver",
        "taskmanager-2",
        "taskmanager-1",
        "jobmanager",
        "stopped;",
    ]
    assert all("ended" in line for line in said[:4])  # by SIGTERM, which no process inherits as ignored
    assert places.read() is None


def test_sigterm_while_the_engine_starts_ends_what_was_started(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process and no state is left."""
    started: list[places.EngineState] = []

    def interrupted(*_: object) -> None:
        started.append(state())
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(cluster, "_wait_until_ready", interrupted)
    with pytest.raises(Cancelled):
        cluster.start(cluster.Size(1, 1), print)

    assert len(started[0].processes) == 3
    assert cluster.alive(started[0]) == []
    assert places.read() is None
    assert machine.exists()


def test_a_process_is_found_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is distinguished from others by ticks since the boot; a number that another process has now is not it."""
    own = cluster.identified("jobmanager", os.getpid())
    engine = places.EngineState("", "", "", 1, 1, (own, places.Process("jobserver", os.getpid(), "boot 1")))
    created = psutil.Process().create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: created + 3600)

    assert cluster.alive(engine) == [own]


@pytest.mark.usefixtures("machine")
def test_the_state_is_kept_while_a_process_of_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not end is named, and the next stop knows it."""
    places.run().mkdir()
    own = cluster.identified("jobmanager", os.getpid())
    places.write(places.EngineState("", "", "", 1, 1, (own,)))
    monkeypatch.setattr(cluster, "_end", lambda _: [])
    with pytest.raises(PenstockError, match=rf"jobmanager \(pid {os.getpid()}\) of the engine did not end"):
        cluster.stop(print)

    assert state().processes == (own,)
