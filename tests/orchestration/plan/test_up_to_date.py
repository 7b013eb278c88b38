"""Nodes that are up to date, or due on a new root."""

from pathlib import Path

from components.storage.hashing import HashCache
from pipelines.orchestration import plan
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.plan import (
    CACHED,
    LOOK_UP,
)
from tests.orchestration.plan.conftest import IDS, OUTPUTS, Root, after


class TestUpToDate:
    """If nothing changed, nothing runs, and every node says why."""

    def test_on_a_new_root_everything_is_due(self, new: Root) -> None:
        """Nodes without inputs run for the first time, the others after them."""
        assert new.due() == after({"Ingest": "first run", "Schema": "first run"})

    def test_after_a_run_nothing_is_due(self, finished: Root) -> None:
        """Each node says what was compared."""
        assert [(each.node.id, each.action, each.reason) for each in finished.planned().nodes] == [
            ("Ingest", CACHED, "same data, settings, code, libraries; outputs intact"),
            ("Schema", CACHED, "same schema; outputs intact"),
            ("StatisticsGen", CACHED, "same inputs, code, libraries; outputs intact"),
            ("ExampleValidator", CACHED, "same inputs, libraries; outputs intact"),
            ("Gate", CACHED, "same inputs, settings, code; outputs intact"),
            ("Transform", CACHED, "same inputs, settings, code, libraries; outputs intact"),
            ("Trainer", CACHED, "same inputs, settings, code, libraries; outputs intact"),
            ("Baseline", LOOK_UP, "no other live model"),
            ("Evaluator", CACHED, "same inputs, settings, code, libraries; outputs intact"),
            ("Pusher", CACHED, "same inputs, settings, code; outputs intact"),
        ]

    def test_a_plan_names_the_outputs_that_are_reused(self, finished: Root) -> None:
        """Those of the execution with the same key."""
        outputs = {each.node.id: [artifact.name for artifact in each.outputs] for each in finished.planned().nodes}

        assert outputs == {node: list(OUTPUTS.get(node, ())) for node in IDS}

    def test_touched_files_change_nothing(self, root: Root) -> None:
        """Neither in the data nor in an artifact."""
        (root.data / "cats" / "1.png").touch()
        (root.newest("Trainer", "model") / "content").touch()

        assert root.due() == {}

    def test_planning_with_a_read_only_cache_writes_nothing(self, root: Root) -> None:
        """A dry run adds, removes and alters no file of the root."""
        config = root.config()

        def contents() -> dict[Path, bytes]:
            return {path: path.read_bytes() for path in config.state.rglob("*") if path.is_file()}

        before = contents()
        (root.data / "cats" / "1.png").write_text("another cat")
        cache = HashCache(config.hash_cache, read_only=True)
        plan.make(config, Store(config.metadata, config.name), cache)
        cache.close()

        assert contents() == before
