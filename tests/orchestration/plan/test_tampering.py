"""Outputs that were altered, and earlier executions that cannot be used."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.plan import (
    CACHED,
    Request,
)
from tests.orchestration.plan.conftest import Record, Root, after


class TestTampering:
    """Promise A14: an artifact that differs from what its node wrote is not reused, and the node says why."""

    def test_an_altered_file(self, root: Root) -> None:
        """The output and the file in it are named."""
        (root.newest("Trainer", "model") / "content").write_text("another model")

        assert root.due() == after({"Trainer": "its output was tampered with: model: content altered"})

    def test_a_deleted_file(self, root: Root) -> None:
        """In any output of the node."""
        (root.newest("Trainer", "model_run") / "content").unlink()

        assert root.due() == after({"Trainer": "its output was tampered with: model_run: content deleted"})

    def test_an_added_file(self, root: Root) -> None:
        """For example a foreign shard."""
        (root.newest("Ingest", "examples") / "extra").write_text("more")

        assert root.due() == after({"Ingest": "its output was tampered with: examples: extra added"})

    def test_a_folder_that_is_gone(self, root: Root) -> None:
        """The whole output is missing."""
        folder = root.newest("Transform", "transform_graph")
        shutil.rmtree(folder)

        assert root.due() == after(
            {"Transform": f"its output was tampered with: transform_graph: {folder.name}: folder missing"}
        )

    @pytest.mark.parametrize("damage", ["missing", "cut"])
    def test_a_missing_or_damaged_seal(self, damage: str, root: Root) -> None:
        """Without its seal an output cannot be verified."""
        path = seals.path(root.config(), root.newest("Gate", "verdict"))
        path.unlink() if damage == "missing" else path.write_bytes(b"{")

        assert root.due() == {"Gate": "its output was tampered with: verdict: its seal is missing"}

    def test_the_served_model(self, root: Root) -> None:
        """The pushed folder is verified as well."""
        (served,) = (root.config().state / "serving").iterdir()
        (served / "content").write_text("another model")

        assert root.due() == {"Pusher": f"its output was tampered with: served version {served.name}: content altered"}

    def test_an_artifact_that_is_not_live(self, root: Root, open_metadata: Callable[[Path], Record]) -> None:
        """Its files may still exist."""
        gate = root.planned().of("Gate")
        assert gate.execution is not None
        inputs = Store(root.config().metadata, "image").input_ids(gate.execution.id)
        shutil.rmtree(root.newest("Gate", "verdict"))  # or it would be used instead
        open_metadata(root.config().state / "metadata.db")(
            "Gate",
            inputs=tuple(inputs),
            outputs={"verdict": root.newest("Schema", "schema")},
            live=False,
            fingerprint=gate.fingerprint,
        )

        assert root.due() == {"Gate": "its output was deleted"}

    def test_an_older_intact_result(self, root: Root) -> None:
        """Of two results with the same key, the intact one is reused."""
        root.run(request=Request(force=frozenset({"Trainer"})))
        (root.newest("Trainer", "model") / "content").write_text("another model")
        planned = root.planned().of("Trainer")

        assert (planned.action, planned.outputs[0].uri.name) == (CACHED, str(root.done_nodes.index("Trainer") + 1))


class TestHistory:
    """Results of earlier runs."""

    def test_other_inputs_under_the_same_key(self, root: Root) -> None:
        """Ingest ran again and wrote new artifacts: nodes that read the old ones are due."""
        root.run(request=Request(force=frozenset({"Ingest"}), last="Ingest"))
        inputs = "its inputs are other artifacts than last time"

        assert root.due() == after({"StatisticsGen": inputs, "Gate": inputs, "Transform": inputs}) | {
            "Gate": "after ExampleValidator, which runs"
        }

    def test_a_new_model_under_the_same_key(self, root: Root) -> None:
        """The Evaluator names its new inputs, because no other model was blessed."""
        root.blessed = False
        root.run("train.epochs=3")
        root.run("train.epochs=3", request=Request(force=frozenset({"Trainer"}), last="Trainer"))

        assert root.due("train.epochs=3") == after({"Evaluator": "its inputs are other artifacts than last time"})

    def test_a_node_that_only_ever_failed(self, new: Root, open_metadata: Callable[[Path], Record]) -> None:
        """The reason differs from that of a node that was never tried."""
        new.config().state.mkdir()
        open_metadata(new.config().state / "metadata.db")("Ingest", state="FAILED")

        assert new.due()["Ingest"] == "never finished before"

    def test_a_run_that_stopped_half_way(self, new: Root) -> None:
        """Finished nodes are reused, the run continues after them."""
        new.run(request=Request(last="Transform"))

        assert new.due() == after({"Trainer": "first run"})

    def test_a_result_without_a_fingerprint(self, root: Root, open_metadata: Callable[[Path], Record]) -> None:
        """It is ignored, even if it is the newest."""
        open_metadata(root.config().state / "metadata.db")(
            "Schema", outputs={"schema": root.newest("Schema", "schema")}
        )

        assert root.due() == {}

    def test_only_a_result_without_a_fingerprint(self, new: Root, open_metadata: Callable[[Path], Record]) -> None:
        """The reason says what is missing."""
        new.config().state.mkdir()
        open_metadata(new.config().state / "metadata.db")("Schema", outputs={"schema": new.home / "schema"})

        assert new.due()["Schema"] == "made without a fingerprint"
