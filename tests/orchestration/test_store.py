"""The metadata store is read as TFX writes it, and mended after a killed run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.orchestration.store import Artifact, Store

Record = Callable[..., tuple[int, dict[str, int]]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the store is, or will be."""
    return tmp_path / "metadata.db"


@pytest.fixture
def record(database: Path, keep_books: Callable[[Path], Record]) -> Record:
    """Writes executions into it."""
    return keep_books(database)


def states(store: Store, *nodes: str) -> list[tuple[str, str]]:
    """Returns what became of every execution of these nodes, the newest first."""
    return [(execution.node, execution.state) for node in nodes for execution in store.executions(node)]


class TestReading:
    """What a node did."""

    def test_an_execution_is_read_with_all_that_was_noted(self, record: Record, database: Path) -> None:
        """Fingerprint, ledger and facts come back as plain values."""
        ledger = {"node": "Ingest", "records_in": 3, "records_out": 3, "quarantined": 0}
        number, _ = record("Ingest", fingerprint={"key": "k"}, ledger=ledger, facts={"classes": ["a"]})
        (found,) = Store(database, "image").executions("Ingest")

        assert (found.id, found.node, found.state) == (number, "Ingest", "COMPLETE")
        assert (found.fingerprint, found.ledger, found.facts) == ({"key": "k"}, ledger, {"classes": ["a"]})

    def test_an_execution_without_notes_has_none(self, record: Record, database: Path) -> None:
        """One that TFX made on its own is read too."""
        record("Ingest")
        (found,) = Store(database, "image").executions("Ingest")

        assert (found.fingerprint, found.ledger, found.facts, found.seconds) == ({}, None, {}, 0.0)

    def test_only_what_did_the_work_is_finished(self, record: Record, database: Path) -> None:
        """Failed, cached, canceled and running ones are left out; the newest comes first."""
        done = [record("Ingest", state=state)[0] for state in ("COMPLETE", "FAILED", "CACHED", "COMPLETE", "RUNNING")]

        assert [found.id for found in Store(database, "image").finished("Ingest")] == [done[3], done[0]]

    def test_pipelines_do_not_see_each_other(self, record: Record, database: Path) -> None:
        """One store may hold several."""
        record("Ingest", pipeline="image")
        record("Ingest", pipeline="other")

        assert len(list(Store(database, "image").executions("Ingest"))) == 1

    def test_outputs_are_read_with_their_properties(self, record: Record, database: Path, tmp_path: Path) -> None:
        """By the key under which they were written."""
        outputs = {"model": tmp_path / "model", "model_run": tmp_path / "run"}
        number, ids = record("Trainer", outputs=outputs, properties={"span": 3, "note": "x"})

        assert Store(database, "image").outputs(number) == [
            Artifact(ids["model"], "model", tmp_path / "model", True, {"span": 3, "note": "x"}),
            Artifact(ids["model_run"], "model_run", tmp_path / "run", True, {"span": 3, "note": "x"}),
        ]

    def test_a_deleted_artifact_is_not_live(self, record: Record, database: Path, tmp_path: Path) -> None:
        """The metadata says so, whatever the disk says."""
        number, _ = record("Trainer", outputs={"model": tmp_path / "model"}, live=False)

        assert [artifact.live for artifact in Store(database, "image").outputs(number)] == [False]

    def test_inputs_are_told_from_outputs(self, record: Record, database: Path, tmp_path: Path) -> None:
        """Only what was read counts."""
        _, examples = record("Ingest", outputs={"examples": tmp_path / "examples"})
        number, _ = record("Trainer", inputs=(examples["examples"],), outputs={"model": tmp_path / "model"})

        assert Store(database, "image").input_ids(number) == {examples["examples"]}


class TestEmpty:
    """Before the first run there is no store."""

    def test_reading_creates_nothing(self, database: Path) -> None:
        """A dry run on a new root leaves no file."""
        store = Store(database, "image")

        assert (list(store.executions("Ingest")), store.outputs(1), store.input_ids(1)) == ([], [], set())
        assert (store.latest_blessed_model(other_than=0), store.close_open_executions("FAILED")) == (None, [])
        assert not database.exists()

    def test_a_new_store_has_no_executions(self, database: Path) -> None:
        """A store that was only just created is read as empty."""
        store = Store(database, "image", read_only=False)

        assert list(store.executions("Ingest")) == []
        assert store.close_open_executions("FAILED") == []

    def test_another_pipelines_store_is_empty(self, record: Record, database: Path) -> None:
        """A pipeline that has never run has done nothing."""
        record("Ingest", pipeline="other")

        assert list(Store(database, "image").executions("Ingest")) == []


class TestClosing:
    """Promise B1: what a killed run left open is closed by the next one."""

    def test_open_executions_are_marked_and_named(self, record: Record, database: Path) -> None:
        """Running and new ones, the newest first."""
        record("Ingest", state="RUNNING")
        record("Trainer", state="NEW")
        store = Store(database, "image", read_only=False)

        assert store.close_open_executions("FAILED") == ["Trainer", "Ingest"]
        assert states(store, "Ingest", "Trainer") == [("Ingest", "FAILED"), ("Trainer", "FAILED")]

    def test_a_stopped_run_is_marked_as_canceled(self, record: Record, database: Path) -> None:
        """The caller knows what it was."""
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
        """Their lock is not ours."""
        record("Ingest", pipeline="image-2", state="RUNNING")
        record("Ingest", pipeline="image", state="COMPLETE")
        Store(database, "image", read_only=False).close_open_executions("FAILED")

        assert states(Store(database, "image-2"), "Ingest") == [("Ingest", "RUNNING")]

    def test_what_was_noted_survives(self, record: Record, database: Path, tmp_path: Path) -> None:
        """Only the state changes: fingerprint and outputs stay."""
        number, ids = record("Ingest", state="RUNNING", fingerprint={"key": "k"}, outputs={"examples": tmp_path / "e"})
        store = Store(database, "image", read_only=False)
        store.close_open_executions("FAILED")
        (found,) = store.executions("Ingest")

        assert (found.id, found.fingerprint) == (number, {"key": "k"})
        assert [artifact.id for artifact in store.outputs(number)] == [ids["examples"]]


class TestBlessedModel:
    """Which model a candidate is compared with."""

    @pytest.fixture
    def bless(self, record: Record, tmp_path: Path) -> Callable[..., None]:
        """Records the evaluation of a model."""

        def evaluate(model: int, blessed: int = 1, state: str = "COMPLETE") -> None:
            properties = {"blessed": blessed, "current_model_id": model}
            record("Evaluator", state=state, outputs={"blessing": tmp_path / "blessing"}, properties=properties)

        return evaluate

    def test_without_a_blessing_there_is_none(self, record: Record, database: Path) -> None:
        """The first model is compared with its bars alone."""
        record("Evaluator", state="FAILED")

        assert Store(database, "image").latest_blessed_model(other_than=1) is None

    def test_the_newest_blessed_model_is_found(self, bless: Callable[..., None], database: Path) -> None:
        """Of several the one with the highest id."""
        bless(10)
        bless(20)

        assert Store(database, "image").latest_blessed_model(other_than=30) == 20

    def test_a_model_that_was_not_blessed_is_passed_over(self, bless: Callable[..., None], database: Path) -> None:
        """It never served."""
        bless(10)
        bless(20, blessed=0)

        assert Store(database, "image").latest_blessed_model(other_than=30) == 10

    def test_the_candidate_is_not_compared_with_itself(self, bless: Callable[..., None], database: Path) -> None:
        """It may have been blessed in an earlier run."""
        bless(10)
        bless(20)

        assert Store(database, "image").latest_blessed_model(other_than=20) == 10

    def test_one_that_reads_other_records_is_passed_over(
        self, bless: Callable[..., None], record: Record, database: Path, tmp_path: Path
    ) -> None:
        """Vectors of a pretrained network, where the candidate reads images."""
        made = [record("Trainer", outputs={"model": tmp_path / name})[1]["model"] for name in ("a", "b", "c")]
        note = tmp_path / "b" / "Format-Serving" / "assets.extra" / "looked_at_by.txt"
        note.parent.mkdir(parents=True)
        note.write_text("digest")
        bless(made[0])
        bless(made[1])

        assert Store(database, "image").latest_blessed_model(other_than=made[2]) == made[0]

    def test_an_unfinished_evaluation_blesses_nothing(self, bless: Callable[..., None], database: Path) -> None:
        """A killed evaluator may have left a blessing behind."""
        bless(10, state="FAILED")

        assert Store(database, "image").latest_blessed_model(other_than=30) is None
