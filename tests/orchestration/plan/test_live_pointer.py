"""Pushes, rollbacks and promotions, and which nodes they make due."""

from dataclasses import replace
from pathlib import Path

import orjson

from components.serving import live
from pipelines.orchestration.metadata import live_model
from pipelines.orchestration.metadata.store import Store
from tests.orchestration.plan.conftest import Root


class TestLivePointer:
    """What a moved pointer makes due: the nodes that read it, and no others."""

    def run_thrice(self, root: Root) -> list[int]:
        """Pushes models of three data sets; returns their ids."""
        for name in ("8.png", "9.png"):
            (root.data / "cats" / name).write_text(name)
            root.run()
        pointer = live.read(root.config().root)
        assert pointer is not None
        return [move.model.artifact for move in pointer.moves]

    def test_a_rollback_makes_nothing_due(self, root: Root) -> None:
        """The model that was rolled back has its verdict, and is not pushed again."""
        models = self.run_thrice(root)
        pointer = live.read(root.config().root)
        assert pointer is not None
        root.move("rollback", models[0], source=pointer.moves[0].folder)

        assert root.due() == {}
        assert root.planned("train.epochs=3").of("Baseline").reason == f"baseline model {pointer.moves[0].model.uri}"

    def test_a_rollback_past_the_base_makes_nothing_due(self, root: Root) -> None:
        """Another model of the data whose model was withdrawn would be pushed; other data starts from the live one."""
        warm = "train.warm_start=live"
        root.run(warm)
        for name in ("8.png", "9.png"):
            (root.data / "cats" / name).write_text(name)
            root.run(warm)
        pointer = live.read(root.config().root)
        assert pointer is not None
        first, second = pointer.moves[0].model, pointer.moves[-2].model
        root.move("rollback", first.artifact, source=pointer.moves[0].folder)
        bases = [root.planned(warm).of("Base").reason]
        assert root.due(warm) == {}
        (root.data / "cats" / "7.png").write_text("7")
        bases.append(root.planned(warm).of("Base").reason)

        assert bases == [f"base model {second.uri}", f"base model {first.uri}"]

    def test_after_a_rollback_a_new_model_is_compared_with_the_one_that_is_live(self, root: Root) -> None:
        """Not with the newest blessed one; and its push makes nothing due."""
        models = self.run_thrice(root)
        pointer = live.read(root.config().root)
        assert pointer is not None
        root.move("rollback", models[0], source=pointer.moves[0].folder)
        root.run("train.epochs=3")
        store = Store(root.config().metadata, "image")
        read = store.input_ids(next(store.finished("Evaluator")).id)

        assert read & set(models) == {models[0]}
        assert root.due("train.epochs=3") == {}

    def test_a_promotion_makes_nothing_due(self, root: Root) -> None:
        """A person has decided; the model of the present settings is not pushed again."""
        models = self.run_thrice(root)
        root.move("promote", models[0])

        assert root.due() == {}

    def test_a_killed_push_is_repaired(self, root: Root) -> None:
        """The version is there with its provenance, and live.json does not know it."""
        pushed = live.read(root.config().root)
        assert pushed is not None
        folder = root.config().state / "serving" / "900"
        move = replace(pushed.live, folder=str(folder), reason="killed after it was published")
        (folder / "assets.extra").mkdir(parents=True)
        (folder / "assets.extra" / "provenance.json").write_bytes(
            orjson.dumps(live.provenance(root.config().root, move))
        )
        incomplete = live_model.repair(root.config(), Store(root.config().metadata, "image"))
        (folder / "saved_model.pb").write_bytes(b"")
        repaired = live_model.repair(root.config(), Store(root.config().metadata, "image"))

        assert incomplete == pushed
        assert repaired == live.read(root.config().root) == replace(pushed, moves=(*pushed.moves, move))

    def test_a_pipeline_that_pushed_before_there_was_a_pointer(self, new: Root) -> None:
        """It is derived from the metadata, once: nothing is due, and the next model has the right baseline."""
        new.records_moves = False
        new.run()
        (new.data / "cats" / "9.png").write_text("one more cat")
        new.run()
        store = Store(new.config().metadata, "image")
        derived = live_model.pointer_of(new.config(), store)

        assert derived is not None
        assert [(move.kind, Path(move.folder).name) for move in derived.moves] == [
            ("push", str(at + 1)) for at, node in enumerate(new.done_nodes) if node == "Pusher"
        ]
        assert [bool(move.model.digest and move.model.data_digest) for move in derived.moves] == [True, True]
        assert live.read(new.config().root) is None
        assert live_model.repair(new.config(), store) == derived == live.read(new.config().root)
        assert new.due() == {}

    def test_a_pointer_that_was_deleted(self, root: Root) -> None:
        """A move that a version records is in its place, although the metadata knows only the pushes around it."""
        self.run_thrice(root)
        before = live.read(root.config().root)
        assert before is not None
        published = replace(before.moves[1], kind="promote", actor="ann", reason="of the version")
        folder = Path(published.folder)
        (folder / "assets.extra").mkdir()
        (folder / "assets.extra" / "provenance.json").write_bytes(
            orjson.dumps(live.provenance(root.config().root, published))
        )
        (folder / "saved_model.pb").write_bytes(b"")
        (root.config().root / "live.json").unlink()
        repaired = live_model.repair(root.config(), Store(root.config().metadata, "image"))

        assert repaired is not None
        assert [(move.folder, move.kind) for move in repaired.moves] == [
            (move.folder, kind) for move, kind in zip(before.moves, ("push", "promote", "push"), strict=True)
        ]
