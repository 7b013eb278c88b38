"""The tabular task on a real Flink cluster: the same result as on the direct runner, computed by other processes."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data.__main__ import generators

pytestmark = pytest.mark.engine
EPOCHS = ("--set", "train.epochs=2")


@pytest.fixture(scope="module")
def runs(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str, int]:
    """The roots of a direct and of a Flink run on the same data, the output of the latter, and its process."""
    home = tmp_path_factory.mktemp("tabular")
    generators()["tabular"].main(["--out", str(home / "data")])
    common = ("run", "tabular", "--data", str(home / "data"), *EPOCHS)
    code, output = engine.run(*common, "--root", str(home / "direct"))
    assert code == 0, output
    assert "direct runner: in memory" in output
    process = engine.start(*common, "--root", str(home / "flink"), "--runner", "flink")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return home / "direct", home / "flink", output, process.pid


def test_results_equal_those_of_the_direct_runner(
    runs: tuple[Path, Path, str, int],
    read_outcome: Callable[[Path, str], Any],
    compare_statistics: Callable[[Path, Path], None],
) -> None:
    """Shards, fitted files and weights are byte-equal, metrics and ledgers are equal, statistics within 1e-6."""
    direct, flink, _, _ = runs

    assert read_outcome(flink, "tabular") == read_outcome(direct, "tabular")
    compare_statistics(direct, flink)


def test_data_nodes_run_in_one_worker_per_job_and_task_manager(runs: tuple[Path, Path, str, int], engine: Any) -> None:
    """No worker is the submitting process or this one, and no job starts a second worker on a task manager."""
    _, _, _, submitter = runs
    workers = [each for each in engine.workers() if "-tabular-" in each["job"]]
    starts = Counter((each["job"], each["task_manager"]) for each in workers)

    assert {job.split("-")[2] for job, _ in starts} == {"ingest", "statisticsgen", "transform", "evaluator"}
    assert set(starts.values()) == {1}
    assert not {each["pid"] for each in workers} & {submitter, os.getpid()}


def test_progress_comes_from_the_engine(runs: tuple[Path, Path, str, int]) -> None:
    """The output shows stages and elements of the Flink job."""
    assert "Flink stage" in runs[2]


def test_another_runner_makes_no_node_due(runs: tuple[Path, Path, str, int], engine: Any) -> None:
    """The engine is in no cache key: after a run on Flink, the direct runner finds everything up to date."""
    _, flink, _, _ = runs
    data = flink.parent / "data"
    code, output = engine.run("run", "tabular", "--data", str(data), *EPOCHS, "--root", str(flink))

    assert code == 0
    assert "up to date" in output
    assert "✓" not in output


def test_every_server_listens_on_loopback_only(engine: Any) -> None:
    """No process of the engine, and no worker, listens on another address than 127.0.0.1."""
    import psutil

    addresses = [
        connection.laddr.ip.removeprefix("::ffff:")
        for each in engine.state.processes
        for connection in psutil.Process(each.pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert len(addresses) >= 8
    assert set(addresses) == {"127.0.0.1"}
