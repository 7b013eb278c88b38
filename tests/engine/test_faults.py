"""Faults of a real cluster: killed task managers, a killed job server, a worker without Penstock, cancel, no progress.

The moment of a fault is an event: a vertex of the node's job runs and its workers have started.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data.__main__ import generators
from pipelines.engine import cluster
from pipelines.orchestration.metadata.store import Store

pytestmark = pytest.mark.engine
FEW = ("--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0")
TASK = "tensor"
LONGEST = 600  # seconds; only a hanging command takes that long


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample data of the task."""
    folder = tmp_path_factory.mktemp("faults") / "data"
    generators()[TASK].main(["--out", str(folder)])
    return folder


@pytest.fixture(scope="module")
def direct(engine: Any, data: Path) -> Path:
    """The root of a run on the direct runner."""
    root = data.parent / "direct"
    code, output = engine.run("run", TASK, "--data", str(data), "--root", str(root), *FEW)
    assert code == 0, output
    return root


def arguments(data: Path, root: Path) -> tuple[str, ...]:
    """Returns the arguments of a run on Flink."""
    return ("run", TASK, "--data", str(data), "--root", str(root), *FEW, "--runner", "flink")


# Ingest last: with new examples, the other nodes' inputs change.
@pytest.mark.parametrize("node", ["Evaluator", "Transform", "Ingest"])
def test_killed_task_manager_changes_nothing(node: str, healthy: Any, data: Path, direct: Path) -> None:
    """B11, B16, A16: a task manager and its workers killed during a node: the job recovers with the same result."""
    process = healthy.start(*arguments(data, direct), "--force", node, "--to", node)
    job = healthy.wait_for(lambda: healthy.working_job(node), process)
    worker = next(each for each in healthy.workers() if each["job"] == job.name)
    healthy.kill_task_manager(worker["task_manager"])
    output, _ = process.communicate(timeout=LONGEST)
    again, first = made_by(node, direct)

    assert process.returncode == 0, output
    assert again == first
    assert not [file for file in direct.rglob(".aside*") if "Split-" in str(file)]


def made_by(node: str, root: Path) -> list[tuple[Any, Any, dict[str, bytes]]]:
    """Returns ledger, metrics and files of each execution of a node, the newest first."""
    store = Store(root / "metadata.db", TASK)
    return [
        (
            execution.ledger,
            execution.facts.get("metrics"),
            {
                str(file.relative_to(str(output.uri))): file.read_bytes()
                for output in store.outputs(execution.id)
                for pattern in ("Split-*/*", "manifest.json", "transform_fn/assets/*")
                for file in Path(str(output.uri)).glob(pattern)
            },
        )
        for execution in store.finished(node)
    ]


def test_killed_job_server_is_a_clear_failure_and_a_rerun_succeeds(
    healthy: Any, data: Path, direct: Path, tmp_path: Path, read_outcome: Callable[[Path, str], Any]
) -> None:
    """The run fails with what to do, no job runs on, and with a new engine the same root gives the same result."""
    process = healthy.start(*arguments(data, tmp_path / "root"), "--set", "retry.attempts=1")
    job = healthy.wait_for(lambda: healthy.working_job("StatisticsGen"), process)
    (server,) = (each.pid for each in healthy.state.processes if each.name == "jobserver")
    os.kill(server, signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    ended = {each.id: each.state for each in healthy.flink.jobs()}[job.id]
    healthy.restart()
    code, again = healthy.run(*arguments(data, tmp_path / "root"))

    assert process.returncode == 1
    assert "Beam's job server stopped answering while StatisticsGen ran" in output
    assert ended == "CANCELED"
    assert code == 0, again
    assert read_outcome(tmp_path / "root", TASK).shards == read_outcome(direct, TASK).shards
    assert read_outcome(tmp_path / "root", TASK).ledgers == read_outcome(direct, TASK).ledgers


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_cancel_ends_the_job_before_the_lock_is_released(
    signum: int, code: int, healthy: Any, data: Path, tmp_path: Path
) -> None:
    """Ctrl-C and SIGTERM cancel the Flink job; when the command has ended, the job has ended too."""
    process = healthy.start(*arguments(data, tmp_path / "root"))
    job = healthy.wait_for(lambda: healthy.working_job("Ingest"), process)
    process.send_signal(signum)
    output, _ = process.communicate(timeout=120)

    assert process.returncode == code, output
    assert {each.id: each.state for each in healthy.flink.jobs()}[job.id] == "CANCELED"


def test_job_of_a_killed_run_is_cancelled_by_the_next_one(healthy: Any, data: Path, tmp_path: Path) -> None:
    """SIGKILL leaves the job running; the next run on the root cancels it before its first node, and succeeds."""
    process = healthy.start(*arguments(data, tmp_path / "root"), "--to", "Ingest")
    job = healthy.wait_for(lambda: healthy.working_job("Ingest"), process)
    for worker in healthy.workers():
        if worker["job"] == job.name:
            os.kill(worker["pid"], signal.SIGSTOP)  # else the job could end by itself before the next run
    process.kill()
    process.communicate(timeout=LONGEST)
    code, output = healthy.run(*arguments(data, tmp_path / "root"), "--to", "Ingest")

    assert code == 0, output
    assert f"cancelled the Flink job {job.name}" in output
    assert {each.id: each.state for each in healthy.flink.jobs()}[job.id] == "CANCELED"


def test_job_without_progress_is_cancelled(healthy: Any, data: Path, tmp_path: Path) -> None:
    """A job whose metrics do not change for engine.timeout_minutes fails with that reason, and is cancelled."""
    process = healthy.start(*arguments(data, tmp_path / "root"), "--set", "engine.timeout_minutes=0.01")
    output, _ = process.communicate(timeout=LONGEST)

    assert process.returncode == 1
    assert "made no progress on Flink for 0.01 minutes and was cancelled" in output
    assert all(job.ended for job in healthy.flink.jobs())


def test_worker_without_penstock_is_refused_before_a_job_is_submitted(healthy: Any, data: Path, tmp_path: Path) -> None:
    """The self-test of the workers' boot program fails: no job, and a message that names the program."""
    program = tmp_path / "boot"
    program.write_text('#!/bin/sh\nexec python3 -I -c "import components" "$@"\n')
    program.chmod(0o755)
    before = len(healthy.flink.jobs())
    code, output = healthy.run(*arguments(data, tmp_path / "root"), "--set", f"engine.boot={program}")

    assert code == 1
    assert "a worker cannot import Penstock" in output
    assert str(program) in output
    assert len(healthy.flink.jobs()) == before


def test_stop_ends_exactly_the_processes_of_the_engine(healthy: Any, data: Path, tmp_path: Path) -> None:
    """After stop no process of the engine is left, its logs are kept, and a run says how to start it."""
    state = healthy.state
    code, output = healthy.run("engine", "stop", "flink")
    left = cluster.alive(state)
    run_code, said = healthy.run(*arguments(data, tmp_path / "root"))
    healthy.bring_up()

    assert (code, left) == (0, [])
    assert all(each.name in output for each in state.processes)
    assert (healthy.folder / "logs" / "jobmanager.log").exists()
    assert run_code == 2
    assert "start it with `penstock engine start flink`" in said
