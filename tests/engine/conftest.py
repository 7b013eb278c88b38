"""One Flink cluster per test session, the commands that use it, and the comparison of two pipeline roots."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from components.errors import PenstockError
from pipelines.engine import cluster, install, places
from pipelines.engine.rest import Flink, Unreachable
from pipelines.orchestration.metadata.store import Store

PROJECT = Path(__file__).resolve().parents[2]
PENSTOCK = Path(sys.executable).with_name("penstock")
LONGEST = 600  # seconds; only a hanging command takes that long
DATA_NODES = ("Ingest", "StatisticsGen", "Transform", "Evaluator")


def missing_tool() -> str:
    """Returns which tool of the engine is missing on this machine, or nothing."""
    try:
        install.java()
    except PenstockError as error:
        return str(error)
    if not places.installed().exists() and shutil.which("mvn") is None:
        return "Beam's Flink runner is not installed, and mvn is not on the PATH"
    return ""


@dataclass(frozen=True)
class Engine:
    """A running engine, and commands on it."""

    folder: Path  # of its state and logs
    hidden: Path | None  # a folder that its workers do not see; None if this machine cannot hide one

    @property
    def state(self) -> places.EngineState:
        """Its state file."""
        state = places.read()
        assert state is not None
        return state

    @property
    def flink(self) -> Flink:
        """The REST service of its job manager."""
        return Flink(self.state.rest)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Starts `penstock ARGUMENTS` and returns at once."""
        return subprocess.Popen(
            [str(PENSTOCK), *arguments], cwd=PROJECT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Runs `penstock ARGUMENTS`; returns its exit code and output."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=LONGEST)
        return process.returncode, output

    def jobs(self, part: str) -> list[Any]:
        """Returns the jobs whose name contains a text, the newest first."""
        return [job for job in self.flink.jobs() if part in job.name]

    def wait_for(self, condition: Callable[[], Any], process: "subprocess.Popen[str]") -> Any:
        """Waits until a condition is met while a command runs, and returns what it is."""
        deadline = time.monotonic() + LONGEST
        while True:
            try:
                if found := condition():
                    return found
            except Unreachable:
                pass
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise AssertionError(f"the condition was not met before the command ended: {process.communicate()[0]}")
            time.sleep(0.05)

    def working_job(self, node: str) -> Any:
        """Returns the job of a node once its workers have started and a vertex of it runs."""
        for job in self.jobs(f"-{node.lower()}-"):
            started = [each for each in self.workers() if each["job"] == job.name]
            running = any(vertex["status"] == "RUNNING" for vertex in self.flink.vertices(job.id))
            if job.state == "RUNNING" and running and started:
                return job
        return None

    def workers(self) -> list[dict[str, Any]]:
        """Returns job, process and task manager of every Python worker that was started."""
        found = []
        for log in sorted((self.folder / "logs").glob("worker-*.log")):
            name = re.fullmatch(r"worker-(.+)-\d+", log.stem)
            said = [line for line in log.read_text(errors="replace").splitlines() if line.startswith('{"job"')]
            found += [{**json.loads(line), "task_manager": name[1]} for line in said if name]
        return found

    def kill_task_manager(self, name: str) -> None:
        """Ends a task manager and its Python workers by SIGKILL, as a host that fails does."""
        (pid,) = (each.pid for each in self.state.processes if each.name == name)
        process = psutil.Process(pid)
        everything = [process, *process.children(recursive=True)]
        for each in everything:
            each.kill()
        psutil.wait_procs(everything, timeout=LONGEST)

    def bring_up(self) -> None:
        """Starts the engine, in a mount namespace of its own where an empty disk covers the hidden folder."""
        start = [str(PENSTOCK), "engine", "start", "flink", "--task-managers", "2", "--slots", "2"]
        hide = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(self.hidden)]
        done = subprocess.run(
            [*(hide if self.hidden else []), *start],
            cwd=PROJECT, text=True, capture_output=True, check=False, timeout=LONGEST,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def restart(self) -> None:
        """Stops what is left of the engine, and starts all of it again."""
        cluster.stop(print)
        self.bring_up()


def _can_hide() -> bool:
    """Whether a process can get mounts of its own here."""
    command = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return (
        shutil.which("unshare") is not None and not subprocess.run(command, check=False, capture_output=True).returncode
    )


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with two task managers of two slots; the tests are skipped where a tool is missing."""
    if reason := missing_tool():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("engine")
    started = Engine(folder, tmp_path_factory.mktemp("submitter") if _can_hide() else None)
    os.environ[places.VARIABLE] = str(folder)
    try:
        started.bring_up()
        yield started
    finally:
        cluster.stop(print)
        del os.environ[places.VARIABLE]


@pytest.fixture
def healthy(engine: Engine) -> Engine:
    """The engine with all of its processes: a test before this one may have ended some."""
    if len(cluster.alive(engine.state)) < len(engine.state.processes):
        engine.restart()
    return engine


@dataclass(frozen=True)
class Outcome:
    """What a pipeline root holds, as far as it must not depend on the runner."""

    shards: dict[str, str]  # digest by path
    fitted: dict[str, str]
    weights: str
    metrics: dict[str, Any]
    ledgers: dict[str, Any]


@pytest.fixture(scope="session")
def read_outcome() -> Callable[[Path, str], Outcome]:
    """A function that reads the outcome of the newest run in a root."""

    def digests(folder: Path) -> dict[str, str]:
        files = (file for file in sorted(folder.rglob("*")) if file.is_file())
        return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def read(root: Path, task: str) -> Outcome:
        store = Store(root / "metadata.db", task)
        names = (*DATA_NODES, "Trainer")
        newest = {name: next(each for each in store.executions(name) if each.state == "COMPLETE") for name in names}
        outputs = {(node, out.name): Path(str(out.uri)) for node in names for out in store.outputs(newest[node].id)}
        (model,) = outputs["Trainer", "model"].glob("Format-Serving/variables/variables.data*")
        return Outcome(
            shards=digests(outputs["Ingest", "examples"]),
            fitted=digests(outputs["Transform", "transform_graph"] / "transform_fn" / "assets"),
            weights=hashlib.sha256(model.read_bytes()).hexdigest(),
            metrics=newest["Evaluator"].facts["metrics"],
            ledgers={name: execution.ledger for name, execution in newest.items()},
        )

    return read


@pytest.fixture(scope="session")
def compare_statistics() -> Callable[[Path, Path], None]:
    """A function that compares the statistics of two roots: equal counts, other numbers within 1e-6."""

    def compare(one: Path, other: Path) -> None:
        for split in ("train", "eval", "test"):
            first, second = (_statistics(root, split) for root in (one, other))
            assert first.keys() == second.keys()
            for name, values in first.items():
                for key, value in values.items():
                    found = second[name][key]
                    if isinstance(value, float):
                        assert found == pytest.approx(value, rel=1e-6, abs=1e-6), (split, name, key)
                    else:
                        assert found == value, (split, name, key)

    return compare


def _statistics(root: Path, split: str) -> dict[str, dict[str, Any]]:
    """Returns the numbers of each feature; the order of features and of equal values is left out."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    (file,) = root.glob(f"StatisticsGen/statistics/*/Split-{split}/FeatureStats.pb")
    (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read_bytes()).datasets
    found: dict[str, dict[str, Any]] = {"": {"examples": dataset.num_examples}}
    for feature in dataset.features:
        kind = feature.WhichOneof("stats")
        stats = getattr(feature, kind)
        common = stats.common_stats
        values = {"present": common.num_non_missing, "missing": common.num_missing, "values": common.tot_num_values}
        if kind == "num_stats":
            values |= {"mean": stats.mean, "std_dev": stats.std_dev, "zeros": stats.num_zeros, "max": stats.max}
        elif kind == "string_stats":
            counts = sorted((each.value, each.frequency) for each in stats.top_values)
            values |= {"unique": stats.unique, "length": stats.avg_length, "top": [count for _, count in counts]}
        found[".".join(feature.path.step) or feature.name] = values
    return found
