"""Nodes that are due because settings, code, libraries, schema or data changed."""

import os
import shutil
from pathlib import Path

import pytest

from components.native import build as native
from pipelines import config as run_config
from pipelines.orchestration import graph, keys
from pipelines.orchestration import schema as curated
from tests.orchestration.plan.conftest import (
    EPOCHS,
    Root,
    after,
    edit_source,
)


class TestChanges:
    """The node that a change concerns names it; other nodes run after that node, or not at all."""

    @pytest.mark.parametrize(
        ("flag", "node", "reason"),
        [
            ("train.epochs=3", "Trainer", f"setting train.epochs changed: {EPOCHS} to 3"),
            ("input.batch_size=8", "Trainer", "setting input.batch_size changed: 0 to 8"),
            ("evaluate.min_accuracy=0.5", "Evaluator", "setting evaluate.min_accuracy changed: None to 0.5"),
            ("ingest.splits.salt=x", "Ingest", "setting ingest.splits.salt changed: '' to 'x'"),
            ("transform.ngrams=2", "Transform", "setting transform.ngrams changed: 1 to 2"),
            ("input.max_tokens=5", "Transform", "setting input.max_tokens changed: 512 to 5"),
        ],
    )
    def test_a_setting(self, flag: str, node: str, reason: str, finished: Root) -> None:
        """Only the node that reads it, and those after it."""
        assert finished.due(flag) == after({node: reason})

    def test_a_setting_of_the_gate(self, finished: Root) -> None:
        """No node reads the Gate's output: Transform and Trainer do not run."""
        assert finished.due("gate.min_per_class=2") == {"Gate": "setting gate.min_per_class changed: 1 to 2"}

    def test_another_serving_folder(self, finished: Root) -> None:
        """The model is pushed there as well."""
        due = finished.due(f"push.directory={finished.home / 'elsewhere'}")

        assert due == {"Pusher": f"setting push.directory changed: '' to '{finished.home / 'elsewhere'}'"}

    def test_a_setting_put_back(self, root: Root) -> None:
        """Results with the old value are reused, if no other model was blessed since."""
        root.blessed = False
        root.run("train.epochs=3")

        assert root.due() == {}

    def test_a_helper_of_the_trainer(self, finished: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """Promise A15: the file is named; nodes that do not import it do not run."""
        edit_source(monkeypatch, "components/models/image.py")

        assert finished.due() == after({"Trainer": "code changed: components/models/image.py"})

    def test_a_helper_of_several_nodes(self, finished: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """Promise A15: each of them runs, and the first names the file."""
        edit_source(monkeypatch, "components/storage/durable.py")

        assert finished.due()["Ingest"] == "code changed: components/storage/durable.py"

    def test_an_unrelated_file(self, finished: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """Promise A15: no node depends on the code of the command line."""
        edit_source(monkeypatch, "pipelines/cli/run.py")

        assert finished.due() == {}

    def test_a_library(self, finished: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both versions are named."""
        installed = keys.version
        keras = installed("keras")
        monkeypatch.setattr(keys, "version", lambda name: "9.9" if name == "keras" else installed(name))

        assert finished.due() == after({"Trainer": f"keras changed: {keras} to 9.9"})

    def test_the_jpeg_decoder(self, finished: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """With and without the native library pixels differ by a rounding."""
        monkeypatch.setenv(native.SWITCH, "0")

        assert finished.due() == after({"Trainer": "JPEG decoder changed"})

    def test_the_jpeg_decoder_of_a_task_without_images(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing depends on it."""
        (tmp_path / "rows.csv").write_text("size,label\n1,x\n2,y\n")
        config = run_config.make("tabular", data=str(tmp_path), root=str(tmp_path / "root"))
        trainer = graph.find("Trainer")
        with_native = keys.make(trainer, config, {}, "", {})
        monkeypatch.setenv(native.SWITCH, "0")

        assert keys.make(trainer, config, {}, "", {}) == with_native

    @pytest.mark.parametrize("setting", ["input.maps", "train.step"])
    def test_a_module_that_a_setting_names(self, root: Root, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
        """Wherever it is; it is not imported."""
        (root.home / "my_code.py").write_text("raise AssertionError\n")
        monkeypatch.syspath_prepend(root.home)
        flag = f"{setting}=my_code:function"
        root.run(flag)
        (root.home / "my_code.py").write_text("raise AssertionError  # edited\n")

        assert root.due(flag) == after({"Trainer": "code changed: my_code.py"})

    def test_the_schema(self, finished: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """A curated schema is content, not code; a comment in it is neither."""
        shutil.copytree(run_config.HOME / "schemas", finished.home / "schemas")
        monkeypatch.setattr(curated, "HOME", finished.home)
        found = []
        for edit in ("# stricter\n", 'string_domain { name: "kind" value: "cats" value: "dogs" }\n'):
            with (finished.home / "schemas" / "image.pbtxt").open("a") as schema:
                schema.write(edit)
            found.append(finished.due())

        assert found == [{}, after({"Schema": "schema changed"})]

    def test_an_image_moved_to_another_class(self, root: Root) -> None:
        """Promise A13: Ingest and all nodes after it run."""
        (root.data / "cats" / "1.png").rename(root.data / "dogs" / "1.png")

        assert root.due() == after({"Ingest": "data changed: 1 moved (cats/1.png to dogs/1.png)"})

    def test_an_image_whose_name_is_not_utf8(self, root: Root) -> None:
        """The reason can be printed: the byte is escaped."""
        (root.data / os.fsdecode(b"cats/caf\xe9.png")).write_text("café")

        assert root.due() == after({"Ingest": "data changed: 1 added (cats/caf\\xe9.png)"})

    def test_a_change_beside_an_image_whose_name_is_not_utf8(self, root: Root) -> None:
        """That image is recognised by its name and not reported as moved."""
        (root.data / os.fsdecode(b"cats/caf\xe9.png")).write_text("café")
        root.run()
        (root.data / "cats" / "1.png").unlink()

        assert root.due() == after({"Ingest": "data changed: 1 removed (cats/1.png)"})

    def test_another_live_model(self, root: Root) -> None:
        """The same candidate is compared again if another model was pushed since."""
        root.run("train.epochs=3")

        assert root.due() == after({"Evaluator": "another live model to compare with"})


@pytest.mark.parametrize(("source", "runs"), [("image_folder", True), ("csv_rows", False)])
def test_only_the_source_in_use_counts(
    finished: Root, monkeypatch: pytest.MonkeyPatch, source: str, runs: bool
) -> None:
    """A15: Ingest depends on the code that reads this data, not on that of the task's other sources."""
    edit_source(monkeypatch, f"components/ingest/sources/{source}.py")

    assert ("Ingest" in finished.due()) == runs
