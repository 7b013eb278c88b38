"""A real Airflow on loopback, in its own environment and home."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

TOOLS = Path(__file__).resolve().parents[2] / ".tools"
_LONGEST = 1200  # seconds; only a hanging DAG takes that long
_ENDED = ("success", "failed")


@dataclass
class Airflow:
    """An Airflow: its commands, its processes, and what its database says."""

    program: Path
    home: Path
    major: int
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.dags = self.home / "dags"
        self.dags.mkdir(parents=True)
        self._environment = {
            **os.environ,
            "PATH": f"{self.program.parent}:/usr/bin:/bin",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor" if self.major > 2 else "SequentialExecutor",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self._port}/execution/",
            "AIRFLOW__API_AUTH__JWT_SECRET": "only-for-loopback-and-long-enough-for-sha-512-which-needs-64-bytes!!",
        }

    def command(self, *arguments: str) -> None:
        """Runs a command of Airflow."""
        done = subprocess.run(
            [self.program, *arguments],
            env=self._environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def start(self) -> None:
        """Starts what runs DAGs; nothing listens beyond loopback."""
        servers = [["scheduler", "--skip-serve-logs"]]
        if self.major > 2:
            servers += [["api-server", "--host", "127.0.0.1", "--port", str(self._port)], ["dag-processor"]]
        for arguments in servers:
            with (self.home / f"{arguments[0]}.log").open("wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        [self.program, *arguments], env=self._environment, cwd=self.home, stdout=log,
                        stderr=subprocess.STDOUT, start_new_session=True,
                    )
                )  # fmt: skip

    def stop(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        left = [psutil.Process(process.pid) for process in self._processes if process.poll() is None]
        for each in psutil.wait_procs(left, timeout=30)[1]:
            os.killpg(each.pid, signal.SIGKILL)

    def run(self, dag: str) -> tuple[str, dict[str, str], dict[str, int]]:
        """Triggers a DAG and waits for its end; returns its state, and state and number of tries of each task."""
        self.command("dags", "unpause", dag)
        self.command("dags", "trigger", dag, "--run-id", f"test-{dag}")
        deadline = time.monotonic() + _LONGEST
        while time.monotonic() < deadline:
            ((state,),) = self._query("SELECT state FROM dag_run WHERE run_id = ?", f"test-{dag}")
            if state in _ENDED:
                rows = self._query(
                    "SELECT task_id, state, try_number FROM task_instance WHERE run_id = ?", f"test-{dag}"
                )
                return state, {task: ended for task, ended, _ in rows}, {task: tries for task, _, tries in rows}
            time.sleep(1)
        raise AssertionError(f"{dag} did not end within {_LONGEST} s; see {self.home}")

    def _query(self, query: str, *values: str) -> list[tuple]:  # type: ignore[type-arg]
        with contextlib.closing(sqlite3.connect(f"file:{self.home}/airflow.db?mode=ro", uri=True, timeout=30)) as db:
            return db.execute(query, values).fetchall()


@pytest.fixture(params=[2, 3])
def airflow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Airflow]:
    """Airflow 2 and 3, if `scripts/tools.sh airflow-2` and `airflow-3` have installed them."""
    name = f"airflow-{request.param}"
    program = TOOLS / name / "bin" / "airflow"
    if not program.exists():
        pytest.skip(f"{name} is not installed: scripts/tools.sh {name}")
    made = Airflow(program, tmp_path / "airflow", request.param)
    yield made
    made.stop()
