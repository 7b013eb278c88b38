"""Ctrl-C on a real cluster: whenever it comes, no job starts later and no worker writes after the command has ended."""

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from data.__main__ import generators

pytestmark = pytest.mark.engine
NOTE = "flink-job.json"


def start(engine: Any, folder: Path) -> Any:
    """Starts Ingest on Flink."""
    generators()["tensor"].main(["--out", str(folder / "data")])
    flags = ("--data", str(folder / "data"), "--root", str(folder / "root"), "--runner", "flink", "--to", "Ingest")
    return engine.start("run", "tensor", *flags)


def test_workers_have_ended_when_a_cancelled_run_has_ended(healthy: Any, tmp_path: Path) -> None:
    """They would publish the shard that they had begun."""
    process = start(healthy, tmp_path)
    job = healthy.wait_for(lambda: healthy.working_job("Ingest"), process)
    pids = [each["pid"] for each in healthy.workers() if each["job"] == job.name]
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)

    assert process.returncode == 130, output
    assert f"cancelling the Flink job {job.name}" in output
    assert pids
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


def test_no_job_starts_after_a_run_that_was_cancelled_at_its_submission(healthy: Any, tmp_path: Path) -> None:
    """The note is written right before the job server is asked: Flink does not know the job yet."""
    before = {job.id for job in healthy.flink.jobs()}
    process = start(healthy, tmp_path)
    healthy.wait_for(lambda: list((tmp_path / "root").rglob(NOTE)), process)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)

    assert process.returncode == 130, output
    assert [job for job in healthy.flink.jobs() if job.id not in before and not job.ended] == []
    assert list((tmp_path / "root").rglob(NOTE)) == []
