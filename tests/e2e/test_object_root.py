"""The root on an object store, through the command line and a real S3 server; nodes run on this machine."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from components.storage.objects import ObjectPath
from pipelines.orchestration.metadata.store import Store

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

EQUAL = ("Ingest/examples", "Schema/schema", "StatisticsGen/statistics", "Gate/verdict")
WEIGHTS = "Format-Serving/variables/variables.data-00000-of-00001"
# Kills the process group when the third object of an artifact is uploaded, after the first two.
KILLED = """
import os, signal
from components.storage.objects import ObjectPath
upload, names = ObjectPath.upload, []
def killed(self, local):
    upload(self, local)
    names.append(self.name)
    if len(names) == 2:
        os.killpg(0, signal.SIGKILL)
ObjectPath.upload = killed
"""

# The direct runner reads and writes on the store, as the workers of an engine do.
DISTRIBUTED = """
from pipelines.orchestration.runners import engines
engines.is_distributed = lambda *_: True
"""


@dataclass(frozen=True)
class Remote:
    """A pipeline with its root on an object store."""

    pipeline: Any
    root: ObjectPath
    state: Path
    flags: tuple[str, ...]

    def run(self, *arguments: str, before: str = "") -> Any:
        """Runs `penstock run tabular` to its end."""
        return self.pipeline.run("--state", str(self.state), *self.flags, *arguments, before=before)

    def output(self, node: str, name: str) -> ObjectPath:
        """Returns the newest output of a node."""
        store = Store(self.state / "metadata.db", "tabular")
        execution = next(store.finished(node))
        found = next(artifact.uri for artifact in store.outputs(execution.id) if artifact.name == name)
        assert isinstance(found, ObjectPath)
        return found


@pytest.fixture(scope="module")
def make_remote(
    rows: Path,
    quick_table: tuple[str, ...],
    make_pipeline: Callable[..., Any],
    s3_server: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[], Remote]]:
    """A pipeline with an empty root on the store and an empty state folder."""
    saved = {name: os.environ.get(name) for name in s3_server.environment}
    os.environ.update(s3_server.environment)

    def make() -> Remote:
        root = f"{s3_server.new_bucket()}/pipelines/table"
        pipeline = make_pipeline(rows, root, task="tabular", environment=s3_server.environment)
        return Remote(pipeline, ObjectPath(root), tmp_path_factory.mktemp("state") / "table", quick_table)

    yield make
    for name, value in saved.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value


@pytest.fixture(scope="module")
def remote(make_remote: Callable[[], Remote]) -> Remote:
    """A pipeline that ran once."""
    made = make_remote()
    result = made.run()
    assert result.code == 0, result.output
    assert "blessed and pushed as version 1" in result.output
    return made


def test_artifacts_are_on_the_store_and_equal_those_of_a_local_root(remote: Remote, table_run: Any) -> None:
    """Records, schema, statistics, verdict and weights are byte-equal; only copies and notes are on this machine."""
    for folder in EQUAL:
        ours = remote.output(*folder.split("/"))
        (theirs,) = (table_run.root / folder).iterdir()
        files = {path.relative_to(theirs).as_posix(): path for path in theirs.rglob("*") if path.is_file()}
        assert {name: (ours / name).read_bytes() for name in ours.files_below()} == {
            name: path.read_bytes() for name, path in files.items()
        }
    (model,) = (table_run.root / "Trainer" / "model").iterdir()
    assert (remote.output("Trainer", "model") / WEIGHTS).read_bytes() == (model / WEIGHTS).read_bytes()
    assert not (remote.state / "Ingest").exists()
    assert {"report.html", "model_card.json", "quarantine.jsonl"} <= remote.root.files_below(1).keys()
    assert {"saved_model.pb", "fingerprint.pb"} <= (remote.root / "serving" / "1").files_below(1).keys()


def test_no_uploaded_file_names_a_local_copy(remote: Remote) -> None:
    """Copies may be deleted at any time. TensorFlow and TFMA note the paths that they were given, and read them not."""
    small = [name for name, stat in remote.root.files_below().items() if stat.st_size < 1 << 20]
    ours = [name for name in small if not name.endswith(("/saved_model.pb", "/eval_config.json"))]
    copies = str(remote.state / "mirror").encode()
    assert [name for name in ours if copies in (remote.root / name).read_bytes()] == []

    provenance = orjson.loads((remote.root / "serving/1/assets.extra/provenance.json").read_bytes())
    assert provenance["uri"] == str(remote.output("Trainer", "model"))


def test_a_second_run_has_nothing_to_do(remote: Remote) -> None:
    """Every artifact is verified by a listing: the mirror is not needed, and nothing is fetched."""
    shutil.rmtree(remote.state / "mirror")
    result = remote.run()

    assert result.code == 0, result.output
    assert "nothing to do" in result.output
    assert not (remote.state / "mirror").exists()


def test_a_deleted_object_makes_its_node_due(remote: Remote) -> None:
    """The plan names the object; the inputs are fetched again and verified, and the lock is released."""
    verdict = remote.output("Gate", "verdict")
    (verdict / "verdict.json").unlink()
    shutil.rmtree(remote.state / "mirror", ignore_errors=True)
    result = remote.run("--to", "Gate")

    assert result.code == 0, result.output
    assert "verdict.json deleted" in result.output
    assert remote.output("Gate", "verdict") != verdict
    assert orjson.loads((remote.output("Gate", "verdict") / "verdict.json").read_bytes())["passed"]
    assert not (remote.root / ".penstock" / "lock.json").is_file()


def test_a_node_that_fails_leaves_nothing_on_the_store(remote: Remote) -> None:
    """Exit code and message are those of the node; the lock is released, and the verdict before it stays."""
    before = (remote.root / "Gate").files_below()
    result = remote.run("--set", "gate.min_per_class=100000", "--to", "Gate")

    assert result.code == 5, result.output
    assert "the data is not fit for training" in result.output
    assert (remote.root / "Gate").files_below() == before
    assert not (remote.root / ".penstock" / "lock.json").is_file()


def test_a_store_that_refuses_the_credentials(remote: Remote) -> None:
    """One line says what to check; no traceback."""
    refused = replace(remote.pipeline, environment={**remote.pipeline.environment, "AWS_SECRET_ACCESS_KEY": "wrong"})
    result = replace(remote, pipeline=refused).run()

    assert result.code == 4, result.output
    assert "Permission denied" in result.output
    assert "Traceback" not in result.output


@pytest.mark.all
def test_training_from_the_store(remote: Remote) -> None:
    """With input.copy_shards=never TensorFlow reads the shards; the weights and the exit code are the same."""
    before = remote.output("Trainer", "model")
    shutil.rmtree(remote.state / "mirror", ignore_errors=True)
    result = remote.run("--set", "input.copy_shards=never", "--force", "Trainer", "--to", "Trainer")

    assert result.code == 0, result.output
    assert remote.output("Trainer", "model") != before
    assert (remote.output("Trainer", "model") / WEIGHTS).read_bytes() == (before / WEIGHTS).read_bytes()
    assert not list((remote.state / "mirror").glob("Ingest/examples/*/Split-*/*"))


@pytest.mark.all  # tests/engine does the same with Flink
def test_executors_that_work_on_the_store_itself(remote: Remote, make_remote: Callable[[], Remote]) -> None:
    """As on a distributed engine: the same objects, sealed by the listing; no shard comes to this machine."""
    made = make_remote()
    result = made.run("--to", "Transform", before=DISTRIBUTED)

    assert result.code == 0, result.output
    for folder in EQUAL[:2]:
        ours, theirs = made.output(*folder.split("/")), remote.output(*folder.split("/"))
        assert {name: (ours / name).read_bytes() for name in ours.files_below()} == {
            name: (theirs / name).read_bytes() for name in theirs.files_below()
        }
    assert not list((made.state / "mirror").glob("Ingest/examples/*/Split-*/*"))
    assert not [name for name in made.root.files_below() if "/.system/" in name or ".aside-" in name]
    assert "nothing to do" in made.run("--to", "Transform", before=DISTRIBUTED).output


def test_a_run_that_was_killed_during_an_upload(make_remote: Callable[[], Remote]) -> None:
    """B1: nothing refers to what it uploaded; the next run deletes it, takes the lock over and succeeds."""
    made = make_remote()
    ended = made.run("--to", "Ingest", before=KILLED)
    left = (made.root / "Ingest").files_below()
    assert ended.code == -signal.SIGKILL, ended.output
    assert len(left) >= 2
    assert list(Store(made.state / "metadata.db", "tabular").finished("Ingest")) == []

    result = made.run("--to", "Ingest")

    assert result.code == 0, result.output
    now = set((made.root / "Ingest").files_below())
    assert not now & set(left)
    assert {name.rpartition("examples/")[2].partition("/")[0] for name in now} == {
        made.output("Ingest", "examples").name
    }
    assert len((made.root / ".penstock" / "seals").files_below()) == 1
