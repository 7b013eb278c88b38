"""The model that training starts from."""

import pytest

from components.errors import BadInput
from components.serving import live
from pipelines.orchestration.metadata.store import Store
from tests.orchestration.plan.conftest import Root, after


class TestWarmStart:
    """The base model is an input of the Trainer; blessing a model does not make its own Trainer due."""

    LIVE = "train.warm_start=live"

    def base(self, root: Root) -> tuple[str, list[int]]:
        """Returns what the plan says about Base, and the ids that the newest Trainer read but no other node made."""
        config = root.config(self.LIVE)
        store, planned = Store(config.metadata, config.name), root.planned(self.LIVE)
        read = store.input_ids(next(store.finished("Trainer")).id)
        others = {a.id for node in ("Ingest", "Transform") for a in planned.of(node).outputs}
        return planned.of("Base").reason, sorted(read - others)

    def test_without_it_there_is_no_base_node(self, finished: Root) -> None:
        """As there is no Extractor without a pretrained model."""
        assert "Base" not in {each.node.id for each in finished.planned().nodes}

    def test_blessing_a_model_does_not_make_its_trainer_due(self, new: Root) -> None:
        """The first run finds no base model; the second one, with nothing new, runs nothing."""
        new.run(self.LIVE)

        assert new.due(self.LIVE) == {}
        assert self.base(new) == ("no live model was trained on other data", [])

    def test_new_data_starts_from_the_model_of_the_old(self, new: Root) -> None:
        """The Trainer runs because of the data, reads the base model, and is then up to date."""
        new.run(self.LIVE)
        old = new.newest("Trainer", "model")
        (new.data / "cats" / "9.png").write_text("one more cat")
        due = new.due(self.LIVE)
        new.run(self.LIVE)
        reason, read = self.base(new)

        assert (due["Trainer"], new.due(self.LIVE)) == ("after Ingest, which runs", {})
        assert (reason, len(read)) == (f"base model {old}", 1)

    def test_after_a_rollback_training_starts_from_the_live_model(self, new: Root) -> None:
        """The model that was rolled back is no base, although its data is the newest."""
        new.run(self.LIVE)
        first = live.read(new.config().root)
        assert first is not None
        (new.data / "cats" / "8.png").write_text("one more cat")
        new.run(self.LIVE)
        new.move("rollback", first.live.model.artifact, source=first.live.folder)
        due = new.due(self.LIVE)
        (new.data / "cats" / "9.png").write_text("and one more")

        assert due == {}
        assert new.planned(self.LIVE).of("Base").reason == f"base model {first.live.model.uri}"

    def test_another_setting_starts_from_the_same_base(self, new: Root) -> None:
        """Not from the model that was trained on this very data with the other setting."""
        new.run(self.LIVE)
        old = new.newest("Trainer", "model")
        (new.data / "cats" / "9.png").write_text("one more cat")
        new.run(self.LIVE)

        assert new.planned(self.LIVE, "train.epochs=3").of("Base").reason == f"base model {old}"

    def test_a_model_of_other_data_that_was_blessed_since(self, new: Root) -> None:
        """Back on the old data, Ingest and Transform are up to date; the Trainer starts from the model of the new."""
        new.run(self.LIVE)
        (new.data / "cats" / "9.png").write_text("one more cat")
        new.run(self.LIVE)
        (new.data / "cats" / "9.png").unlink()

        assert list(new.due(self.LIVE)) == ["Trainer", "Evaluator", "Pusher"]
        assert new.planned(self.LIVE).of("Base").reason == f"base model {new.newest('Trainer', 'model')}"

    def test_a_model_that_was_altered(self, new: Root) -> None:
        """A14: it is no base model for a new training; a training that has finished is still up to date."""
        new.run(self.LIVE)
        old = new.newest("Trainer", "model")
        (new.data / "cats" / "9.png").write_text("one more cat")
        new.run(self.LIVE)
        (old / "content").write_text("other weights")
        message = f"base model {old} was tampered with: content altered"

        assert (self.base(new)[0], new.due(self.LIVE)) == (message, {})
        with pytest.raises(BadInput, match=f"^{message}; expected it as it was trained: restore it"):
            new.due(self.LIVE, "train.epochs=3")

    def test_a_model_in_a_folder(self, new: Root) -> None:
        """Its content is in the key: another model under the same name is another base."""
        model = new.home / "model"
        for name in (
            "variables/variables.index",
            "variables/variables.data-00000-of-00001",
            "assets.extra/weights.json",
        ):
            (model / name).parent.mkdir(parents=True, exist_ok=True)
            (model / name).write_text(name)
        flag = f"train.warm_start={model}"
        assert new.planned(flag).of("Base").reason == f"first run with base model {model}"
        new.run(flag)
        unchanged = new.due(flag)
        (model / "variables" / "variables.index").write_text("another one")

        assert unchanged == {}
        assert new.due(flag) == {
            "Base": "model of train.warm_start changed",
            **after({"Trainer": "after Base, which runs"}),
        }

    def test_a_folder_without_a_model(self, new: Root) -> None:
        """The missing file is named."""
        with pytest.raises(BadInput, match=r"train.warm_start .*data: there is no file assets.extra/weights.json"):
            new.due(f"train.warm_start={new.data}")
