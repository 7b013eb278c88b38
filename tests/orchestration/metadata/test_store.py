"""The metadata store is read as TFX writes it, at any moment, and a killed run's executions are closed."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from components.errors import PenstockError
from components.serving.live import LiveModel
from pipelines.orchestration.metadata.store import Artifact, Store

CLASSES = "it predicts other classes (it lacks 0, 1, 2, 3, 4 and 2 more)"
Record = Callable[..., tuple[int, dict[str, int]]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The path of the store."""
    return tmp_path / "metadata.db"


@pytest.fixture
def record(database: Path, open_metadata: Callable[[Path], Record]) -> Record:
    """Writes executions into the store."""
    return open_metadata(database)


def states(store: Store, *nodes: str) -> list[tuple[str, str]]:
    """Returns node and state of every execution of these nodes, newest first."""
    return [(execution.node, execution.state) for node in nodes for execution in store.executions(node)]


class TestReading:
    """Executions and their artifacts."""

    def test_an_execution_is_read_with_all_its_properties(self, record: Record, database: Path) -> None:
        """Fingerprint, ledger and facts come back as plain values."""
        ledger = {"node": "Ingest", "records_in": 3, "records_out": 3, "quarantined": 0}
        number, _ = record("Ingest", fingerprint={"key": "k"}, ledger=ledger, facts={"classes": ["a"]})
        (found,) = Store(database, "image").executions("Ingest")

        assert (found.id, found.node, found.state) == (number, "Ingest", "COMPLETE")
        assert (found.fingerprint, found.ledger, found.facts) == ({"key": "k"}, ledger, {"classes": ["a"]})

    def test_an_execution_without_properties_has_empty_values(self, record: Record, database: Path) -> None:
        """TFX writes such executions for nodes that it resolves itself."""
        record("Ingest")
        (found,) = Store(database, "image").executions("Ingest")

        assert (found.fingerprint, found.ledger, found.facts) == ({}, None, {})

    def test_only_completed_executions_are_finished(self, record: Record, database: Path) -> None:
        """Failed, cached, canceled and running ones are left out; newest first."""
        done = [record("Ingest", state=state)[0] for state in ("COMPLETE", "FAILED", "CACHED", "COMPLETE", "RUNNING")]

        assert [found.id for found in Store(database, "image").finished("Ingest")] == [done[3], done[0]]

    def test_pipelines_do_not_see_each_other(self, record: Record, database: Path) -> None:
        """One store may hold several pipelines."""
        record("Ingest", pipeline="image")
        record("Ingest", pipeline="other")

        assert len(list(Store(database, "image").executions("Ingest"))) == 1

    def test_outputs_are_read_with_their_properties(self, record: Record, database: Path, tmp_path: Path) -> None:
        """Sorted by the key under which they were written."""
        outputs = {"model": tmp_path / "model", "model_run": tmp_path / "run"}
        number, ids = record("Trainer", outputs=outputs, properties={"span": 3, "note": "x"})

        assert Store(database, "image").outputs(number) == [
            Artifact(ids["model"], "model", tmp_path / "model", True, {"span": 3, "note": "x"}),
            Artifact(ids["model_run"], "model_run", tmp_path / "run", True, {"span": 3, "note": "x"}),
        ]

    def test_a_deleted_artifact_is_not_live(self, record: Record, database: Path, tmp_path: Path) -> None:
        """The metadata decides, not the files."""
        number, _ = record("Trainer", outputs={"model": tmp_path / "model"}, live=False)

        assert [artifact.live for artifact in Store(database, "image").outputs(number)] == [False]

    def test_inputs_do_not_include_outputs(self, record: Record, database: Path, tmp_path: Path) -> None:
        """Only artifacts that the execution read are returned."""
        _, examples = record("Ingest", outputs={"examples": tmp_path / "examples"})
        number, _ = record("Trainer", inputs=(examples["examples"],), outputs={"model": tmp_path / "model"})

        assert Store(database, "image").input_ids(number) == {examples["examples"]}


class TestEmpty:
    """Before the first run there is no store."""

    def test_reading_creates_nothing(self, database: Path) -> None:
        """A dry run on a new root leaves no file."""
        store = Store(database, "image")

        assert (list(store.executions("Ingest")), store.outputs(1), store.input_ids(1)) == ([], [], set())
        assert (store.blessed(), store.close_open_executions("FAILED")) == (set(), [])
        assert not database.exists()

    def test_a_new_store_has_no_executions(self, database: Path) -> None:
        """It is read as empty."""
        store = Store(database, "image", read_only=False)

        assert list(store.executions("Ingest")) == []
        assert store.close_open_executions("FAILED") == []

    def test_another_pipelines_store_is_empty(self, record: Record, database: Path) -> None:
        """A pipeline that has never run has no executions."""
        record("Ingest", pipeline="other")

        assert list(Store(database, "image").executions("Ingest")) == []


READERS = 3
ROUNDS = 8
# Reads each new store while another process creates it, until it is complete.
READ = """
import sys
from pathlib import Path
from pipelines.orchestration.metadata.store import Store, _is_complete

print("ready", flush=True)
sys.stdin.readline()
for database in map(Path, sys.argv[1:]):
    while not _is_complete(database):
        Store(database, "image")
    Store(database, "image")
print("read all", flush=True)
"""
# Fills more pages than SQLite's cache holds, so the file itself has uncommitted pages; then ends as kill -9 does.
DIE_IN_A_TRANSACTION = """
import os, signal, sqlite3, sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN IMMEDIATE")
for number in range(2000):
    connection.execute("INSERT INTO Type (name, version, type_kind) VALUES (?, '', 0)", ("x" * 200 + str(number),))
os.kill(os.getpid(), signal.SIGKILL)
"""


class TestWhileItIsCreated:
    """Another process may create the store, or may have been killed in it."""

    def test_readers_never_fail_while_another_process_creates_it(self, tmp_path: Path) -> None:
        """They read an empty store, then a complete one, however the processes interleave."""
        databases = [tmp_path / f"{number}.db" for number in range(ROUNDS)]
        readers = [
            subprocess.Popen(
                [sys.executable, "-c", READ, *map(str, databases)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for _ in range(READERS)
        ]  # fmt: skip
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdin is not None
            reader.stdout.readline()
            reader.stdin.write("\n")
            reader.stdin.flush()
        for database in databases:
            Store(database, "image", read_only=False)

        assert [reader.communicate() for reader in readers] == [("read all\n", "")] * READERS

    def test_a_store_without_tables_is_empty(self, database: Path) -> None:
        """The creating process has opened the file and committed nothing."""
        database.touch()

        assert list(Store(database, "image").executions("Ingest")) == []

    def test_an_open_transaction_is_not_seen(self, record: Record, database: Path) -> None:
        """The last committed state is read."""
        record("Ingest")
        with closing(sqlite3.connect(database, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("DELETE FROM Execution")

            assert states(Store(database, "image"), "Ingest") == [("Ingest", "COMPLETE")]

    def test_a_run_killed_in_a_transaction_leaves_the_last_committed_state(
        self, record: Record, database: Path
    ) -> None:
        """SQLite's journal is still there, and a read-only connection cannot apply it."""
        record("Ingest")
        died = subprocess.run([sys.executable, "-c", DIE_IN_A_TRANSACTION, str(database)], check=False)
        left = sorted(path.name for path in database.parent.iterdir())

        assert (died.returncode, left) == (-signal.SIGKILL, [database.name, f"{database.name}-journal"])
        assert states(Store(database, "image"), "Ingest") == [("Ingest", "COMPLETE")]

    def test_a_file_that_is_no_database_is_named(self, database: Path) -> None:
        """With what to do about it."""
        database.write_bytes(b"not a database" * 100)

        with pytest.raises(PenstockError) as refused:
            Store(database, "image")
        assert str(refused.value) == (
            f"metadata {database}: cannot be read: file is not a database; restore the file, or choose another --root"
        )


class TestClosing:
    """Promise B1: the next run closes executions that a killed run left open."""

    def test_open_executions_are_marked_and_named(self, record: Record, database: Path) -> None:
        """Running and new ones, newest first."""
        record("Ingest", state="RUNNING")
        record("Trainer", state="NEW")
        store = Store(database, "image", read_only=False)

        assert store.close_open_executions("FAILED") == ["Trainer", "Ingest"]
        assert states(store, "Ingest", "Trainer") == [("Ingest", "FAILED"), ("Trainer", "FAILED")]

    def test_a_stopped_run_is_marked_as_canceled(self, record: Record, database: Path) -> None:
        """The caller names the state."""
        record("Ingest", state="RUNNING")
        store = Store(database, "image", read_only=False)
        store.close_open_executions("CANCELED")

        assert states(store, "Ingest") == [("Ingest", "CANCELED")]

    def test_closed_executions_stay_as_they_are(self, record: Record, database: Path) -> None:
        """History is not rewritten."""
        for state in ("COMPLETE", "CACHED", "FAILED", "CANCELED"):
            record("Ingest", state=state)
        store = Store(database, "image", read_only=False)

        assert store.close_open_executions("FAILED") == []
        assert [state for _, state in states(store, "Ingest")] == ["CANCELED", "FAILED", "CACHED", "COMPLETE"]

    def test_other_pipelines_are_left_alone(self, record: Record, database: Path) -> None:
        """Their runs may be alive: each pipeline has its own lock."""
        record("Ingest", pipeline="image-2", state="RUNNING")
        record("Ingest", pipeline="image", state="COMPLETE")
        Store(database, "image", read_only=False).close_open_executions("FAILED")

        assert states(Store(database, "image-2"), "Ingest") == [("Ingest", "RUNNING")]

    def test_properties_and_outputs_survive(self, record: Record, database: Path, tmp_path: Path) -> None:
        """Only the state changes."""
        number, ids = record("Ingest", state="RUNNING", fingerprint={"key": "k"}, outputs={"examples": tmp_path / "e"})
        store = Store(database, "image", read_only=False)
        store.close_open_executions("FAILED")
        (found,) = store.executions("Ingest")

        assert (found.id, found.fingerprint) == (number, {"key": "k"})
        assert [artifact.id for artifact in store.outputs(number)] == [ids["examples"]]


def test_what_a_model_was_made_from(record: Record, database: Path, tmp_path: Path) -> None:
    """By its lineage: the statistics are those of the examples that it was trained on, not the newest ones."""
    old, new = (record("Ingest", outputs={"examples": tmp_path / each})[1]["examples"] for each in ("old", "new"))
    record("StatisticsGen", inputs=(old,), outputs={"statistics": tmp_path / "of old"})
    record("StatisticsGen", inputs=(new,), outputs={"statistics": tmp_path / "of new"})
    graph = record("Transform", inputs=(old,), outputs={"transform_graph": tmp_path / "graph"})[1]["transform_graph"]
    read = {old: "examples", graph: "transform_graph"}
    model = record("Trainer", inputs=read, outputs={"model": tmp_path / "model"})[1]["model"]
    store = Store(database, "image")

    assert {name: Path(str(each.uri)).name for name, each in store.made_from(model).items()} == {
        "examples": "old", "transform_graph": "graph", "statistics": "of old",
    }  # fmt: skip
    assert store.made_from(999) == {}


class TestModels:
    """Blessed models, and the baseline model that a candidate is compared with."""

    @pytest.fixture
    def bless(self, record: Record, tmp_path: Path) -> Callable[..., None]:
        """Records the evaluation of a model."""

        def evaluate(model: int, blessed: int = 1, state: str = "COMPLETE") -> None:
            properties = {"blessed": blessed, "current_model_id": model}
            record("Evaluator", state=state, outputs={"blessing": tmp_path / "blessing"}, properties=properties)

        return evaluate

    @pytest.fixture
    def train(self, record: Record, tmp_path: Path) -> Callable[..., LiveModel]:
        """Records a Model artifact with some files."""

        def made(name: str, live: bool = True, **files: str) -> LiveModel:
            for file, content in files.items():
                path = (
                    tmp_path
                    / name
                    / "Format-Serving"
                    / {"labels": "assets", "pretrained.txt": "assets.extra"}[file]
                    / file
                )
                path.parent.mkdir(parents=True)
                path.write_text(content)
            _, ids = record("Trainer", outputs={"model": tmp_path / name}, live=live)
            return LiveModel(ids["model"], str(tmp_path / name))

        return made

    def test_only_finished_evaluations_bless(self, bless: Callable[..., None], database: Path) -> None:
        """A killed evaluator may have left a blessing behind."""
        bless(10)
        bless(20, blessed=0)
        bless(30, state="FAILED")

        assert Store(database, "image").blessed() == {10}

    def test_the_first_model_that_can_be_compared_is_the_baseline(
        self, train: Callable[..., LiveModel], database: Path
    ) -> None:
        """Not one that was deleted, is elsewhere by now, or reads embeddings of a pretrained model."""
        models = [
            train("deleted", live=False),
            replace(train("moved"), uri="elsewhere"),
            LiveModel(999, "unknown"),
            train("embeds", **{"pretrained.txt": "digest"}),
            train("good"),
            train("older"),
        ]
        store = Store(database, "image")
        candidate = Artifact(0, "model", Path("candidate"), live=True, properties={})
        found = store.baseline(models, candidate)

        assert found is not None
        assert found.uri.name == "good"
        assert store.baseline([], candidate) is None

    @pytest.mark.parametrize(
        ("classes", "reason"),
        [
            ("cat\ndog\n", ""),
            ("dog\nemu\n", "it predicts other classes (it lacks emu; this model lacks cat)"),
            ("".join(f"{each}\n" for each in ["cat", "dog", *range(7)]), CLASSES),
        ],
        ids=["the same", "others", "many"],
    )
    def test_a_model_that_is_not_compared_is_named(
        self, train: Callable[..., LiveModel], database: Path, tmp_path: Path, classes: str, reason: str
    ) -> None:
        """The missing comparison has a reason."""
        live, other = train("a", labels="dog\ncat\n"), train("b", labels=classes)
        candidate = Artifact(other.artifact, "model", tmp_path / "b", live=True, properties={})
        said = Store(database, "image").not_compared([live], candidate)

        assert said == (f"not compared with the live model: {reason}" if reason else "")


def test_a_database_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Two databases of one address, on two machines, have two; two pipelines of one database find the same."""
    first, again, other = (
        Store(tmp_path / f"{name}.db", pipeline, read_only=False).identity()
        for name, pipeline in (("one", "image"), ("one", "text"), ("two", "image"))
    )
    assert first == again != other
