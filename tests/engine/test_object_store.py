"""Data and root on a real S3 server, data nodes on a real Flink cluster whose workers see nothing of the submitter."""

import hashlib
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from components.storage.objects import ObjectPath
from data.__main__ import generators
from pipelines.orchestration.metadata.store import Store

pytestmark = pytest.mark.engine
FEW = ("--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0")
# The files that must not depend on where they were made; the others name folders, times or versions.
EQUAL = (
    "Ingest/examples/*/**/*", "Transform/transform_graph/*/transform_fn/assets/*",
    "Trainer/model/*/Format-Serving/variables/*", "serving/1/variables/*",
)  # fmt: skip
NODES = ("Ingest", "StatisticsGen", "Transform", "Trainer", "Evaluator")
OUTAGE = 20  # seconds


@pytest.fixture(scope="module")
def isolated(engine: Any, s3_server: Any) -> Any:
    """The engine with the S3 server's credentials in the environment of its workers."""
    if engine.hidden is None:
        pytest.skip("hiding folders from workers needs permission to mount (unshare --mount)")
    old = {name: os.environ.get(name) for name in s3_server.environment}
    os.environ.update(s3_server.environment)
    engine.restart()
    yield engine
    for name, value in old.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.mark.parametrize("task", ["tabular", "image"])
def test_result_equals_a_local_run(task: str, isolated: Any, s3_bucket: str) -> None:
    """Shards, vocabularies and weights are byte-equal, metrics and ledgers equal; nothing ran in the submitter."""
    home = isolated.hidden / task
    places = (*local_run(task, home, isolated, s3_bucket), *FEW, "--runner", "flink")
    process = isolated.start("run", task, *places)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    jobs = [each for each in isolated.workers() if f"-{task}-" in each["job"]]
    starts = Counter((each["job"], each["task_manager"]) for each in jobs)

    assert files(ObjectPath(f"{s3_bucket}/root")) == files(home / "local")
    assert outcome(home / "state", task) == outcome(home / "local", task)
    assert set(starts.values()) == {1}
    assert process.pid not in {each["pid"] for each in jobs}
    again, said = isolated.run("run", task, *places)
    assert (again, "✓" in said) == (0, False)


def test_result_is_equal_if_the_store_is_unreachable_for_a_while(isolated: Any, s3_server: Any, s3_bucket: str) -> None:
    """The server is away for 20 s while workers of Ingest, of Transform and of the Evaluator run: nothing changes."""
    home = isolated.hidden / "outage"
    places = (*local_run("tabular", home, isolated, s3_bucket), *FEW, "--runner", "flink")
    process = isolated.start("run", "tabular", *places)
    for node in ("Ingest", "Transform", "Evaluator"):
        known = {job.id for job in isolated.jobs(f"-{node.lower()}-")}
        isolated.wait_for(lambda node=node, known=known: new_job(isolated, node, known), process)
        s3_server.stop()
        time.sleep(OUTAGE)
        s3_server.start()
    output, _ = process.communicate(timeout=600)

    assert process.returncode == 0, output
    assert files(ObjectPath(f"{s3_bucket}/root")) == files(home / "local")
    assert outcome(home / "state", "tabular") == outcome(home / "local", "tabular")


def new_job(engine: Any, node: str, known: set[str]) -> Any:
    """Returns the job of a node whose workers run, unless an earlier test has submitted it."""
    job = engine.working_job(node)
    return job if job and job.id not in known else None


def local_run(task: str, home: Path, engine: Any, bucket: str) -> tuple[str, ...]:
    """Runs a task on this machine and copies its data to the store; returns the places of the run on the store."""
    generators()[task].main(["--out", str(home / "data")])
    for file in (file for file in (home / "data").rglob("*") if file.is_file()):
        ObjectPath(f"{bucket}/data/{file.relative_to(home / 'data').as_posix()}").upload(file)
    code, output = engine.run("run", task, "--data", str(home / "data"), "--root", str(home / "local"), *FEW)
    assert code == 0, output
    return ("--data", f"{bucket}/data", "--root", f"{bucket}/root", "--state", str(home / "state"))


def files(root: Path | ObjectPath) -> dict[str, str]:
    """Returns the digests of the files that must be equal: not of what identifies the input, which its store says."""
    found = {
        str(path).removeprefix(f"{root}/"): path.read_bytes()
        for pattern in EQUAL
        for path in root.glob(pattern)
        if path.is_file()
    }
    for name in [name for name in found if name.endswith("examples/1/manifest.json")]:
        manifest = json.loads(found[name])
        del manifest["data_digest"]
        found[name] = json.dumps(manifest).encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in found.items() if "/sources/" not in name}


def outcome(state: Path, task: str) -> dict[str, Any]:
    """Returns ledgers of all nodes and the metrics of the Evaluator."""
    store = Store(state / "metadata.db", task)
    newest = {name: next(store.finished(name)) for name in NODES}
    return {
        "ledgers": {name: execution.ledger for name, execution in newest.items()},
        "metrics": newest["Evaluator"].facts["metrics"],
    }
