"""Which nodes are due, and why: on a real metadata store, with real seals and hashes, without TFX.

Earlier runs are simulated from plans: each due node gets outputs, seals and an execution, as the runner writes them.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import orjson
import pytest

from components import fingerprint
from components.errors import BadInput, SettingsError
from components.ingest.close import manifest as closing
from components.ingest.sources.image_folder import SOURCE
from components.ingest.survey import listing
from components.native import build as native
from components.records import manifest, seal
from components.serving import live
from components.serving.live import Move
from components.settings.tree import Settings
from components.storage.hashing import HashCache
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration import graph, keys, plan
from pipelines.orchestration import schema as curated
from pipelines.orchestration.metadata import live_model, seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.plan import (
    CACHED,
    KEPT,
    LOOK_UP,
    RUN,
    SKIP,
    NodePlan,
    Plan,
    Request,
)
from pipelines.orchestration.reasons import data_difference, difference

Record = Callable[..., tuple[int, dict[str, int]]]
Due = dict[str, str]

IDS = tuple(node.id for node in graph.NODES)
READ_SOURCES = fingerprint.sources
EPOCHS = Settings().train.epochs

OUTPUTS = {
    "Ingest": ("examples",),
    "Schema": ("schema",),
    "StatisticsGen": ("statistics",),
    "ExampleValidator": ("anomalies",),
    "Gate": ("verdict",),
    "Base": ("base_model",),
    "Transform": ("transform_graph",),
    "Trainer": ("model", "model_run"),
    "Evaluator": ("blessing", "evaluation"),
    "Pusher": ("pushed_model",),
}
INPUTS = {
    "StatisticsGen": ("examples", "schema"),
    "ExampleValidator": ("statistics", "schema"),
    "Gate": ("examples", "statistics", "anomalies"),
    "Transform": ("examples", "schema"),
    "Trainer": ("examples", "transform_graph"),
    "Evaluator": ("examples", "model"),
    "Pusher": ("model", "blessing"),
}


@dataclass
class Root:
    """A pipeline root, planned and run without TFX."""

    home: Path
    open_metadata: Callable[[Path], Record]
    blessed: bool = True
    done_nodes: list[str] = field(default_factory=list)
    trained_on: str = ""
    records_moves: bool = True  # False: as before there was a live pointer

    def config(self, *flags: str) -> RunConfig:
        """Returns the configuration of a run on this root."""
        return run_config.make("image", data=str(self.data), root=str(self.home / "root"), flags=flags)

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.home / "data"

    def planned(self, *flags: str, request: Request | None = None) -> Plan:
        """Makes the plan, as `penstock run` does before it imports TFX."""
        config = self.config(*flags)
        with opened(config) as cache:
            return plan.make(config, Store(config.metadata, config.name), cache, request or Request())

    def due(self, *flags: str, request: Request | None = None) -> Due:
        """Returns the due nodes and why they are due."""
        return {each.node.id: each.reason for each in self.planned(*flags, request=request).due}

    def run(self, *flags: str, request: Request | None = None) -> None:
        """Makes a plan and simulates every due node."""
        config, planned = self.config(*flags), self.planned(*flags, request=request)
        config.notes.mkdir(parents=True, exist_ok=True)
        record = self.open_metadata(config.state / "metadata.db")
        made: dict[str, int] = {}
        for each in planned.nodes:
            if each.action == RUN:
                made |= self._do(each, config, made, record)
            else:
                made |= {artifact.name: artifact.id for artifact in each.outputs}

    def _do(self, each: NodePlan, config: RunConfig, made: Mapping[str, int], record: Record) -> dict[str, int]:
        self.done_nodes.append(each.node.id)
        node, number = each.node.id, len(self.done_nodes)
        folders = {name: self.home / "root" / node / name / str(number) for name in OUTPUTS[node]}
        served = [config.state / "serving" / str(number)] if node == "Pusher" and self.blessed else []
        for folder in (*folders.values(), *served):
            folder.mkdir(parents=True)
            (folder / "content").write_text(f"{node} {number}")
        if node == "Ingest":
            taken = listing.take(SOURCE, self.data, HashCache(None))
            closing.write_sources(folders["examples"], taken)
            manifest.write(folders["examples"], *closing.build(taken, []))
        with opened(config) as cache:
            for folder in (*folders.values(), *served):
                seal.write(seals.path(config, folder), seal.seal(folder, cache))
        base = [made["base_model"]] if node == "Trainer" and "base_model" in made else []
        _, ids = record(
            node,
            inputs=(*(made[name] for name in INPUTS.get(node, ())), *self._baseline(node, config, made), *base),
            outputs=folders,
            properties=self._properties(each, made, served),
            fingerprint=each.fingerprint,
        )
        if served and self.records_moves:
            self.move("push", made["model"], str(served[0]))
        return ids

    def move(self, kind: live.Kind, model: int, folder: str = "", source: str = "") -> None:
        """Moves the live pointer, as a push or a command does."""
        (found,) = Store(self.config().metadata, "image").artifacts({model}, "model")
        folder = folder or f"{self.config().serving}/{100 + len(self.done_nodes)}"
        move = Move(kind, folder, live.now(), "ann@host", "", live_model.lineage(found), source)
        live.write(self.config().root, lambda pointer: live.follow(pointer, [move], "image"))

    def _baseline(self, node: str, config: RunConfig, made: Mapping[str, int]) -> list[int]:
        if node != "Evaluator":
            return []
        pointer = live_model.pointer_of(config, Store(config.metadata, config.name))
        models = pointer.baselines(made["model"]) if pointer else []
        return [model.artifact for model in models[:1]]

    def _properties(self, each: NodePlan, made: Mapping[str, int], served: list[Path]) -> dict[str, str | int]:
        if each.node.id == "Ingest":
            self.trained_on = each.fingerprint["data_digest"]
        if each.node.id == "Trainer":
            return {"trained_on": self.trained_on}
        if each.node.id == "Evaluator":
            return {"blessed": int(self.blessed), "current_model_id": made["model"]}
        return {"pushed_destination": str(served[0])} if served else {}

    def newest(self, node: str, name: str) -> Path:
        """Returns the folder of a node's newest output."""
        return max((self.home / "root" / node / name).iterdir(), key=lambda folder: int(folder.name))


@contextmanager
def opened(config: RunConfig) -> Iterator[HashCache]:
    """Opens the root's cache of hashes."""
    cache = HashCache(config.hash_cache)
    try:
        yield cache
    finally:
        cache.close()


@cache
def sources_of_this_project(entries: tuple[str, ...]) -> dict[str, str]:
    """Returns the fingerprint of our own code, computed once: it takes half of the time of a plan."""
    return READ_SOURCES(entries)


@pytest.fixture(autouse=True)
def _fast_fingerprints(monkeypatch: pytest.MonkeyPatch) -> None:
    def sources(entries: list[str]) -> dict[str, str]:
        ours = all(entry.startswith("components.") for entry in entries)
        return sources_of_this_project(tuple(entries)) if ours else READ_SOURCES(entries)

    monkeypatch.setattr(fingerprint, "sources", sources)


@pytest.fixture(autouse=True)
def _without_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # so that no penstock.toml is read
    monkeypatch.delenv("PENSTOCK_SETTINGS", raising=False)


def new_root(home: Path, open_metadata: Callable[[Path], Record]) -> Root:
    """Returns a root without any run, and data of two cats and two dogs."""
    for name in ("cats/1.png", "cats/2.png", "dogs/3.png", "dogs/4.png"):
        (home / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "data" / name).write_text(name)
    return Root(home, open_metadata)


@pytest.fixture
def new(tmp_path: Path, open_metadata: Callable[[Path], Record]) -> Root:
    """A root without any run."""
    return new_root(tmp_path, open_metadata)


@pytest.fixture
def root(new: Root) -> Root:
    """A root after one complete run, to be changed."""
    new.run()
    return new


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, open_metadata: Callable[[Path], Record]) -> Root:
    """A root after one complete run, shared by tests that change nothing in it."""
    home = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.delenv("PENSTOCK_SETTINGS", raising=False)
        shared = new_root(home, open_metadata)
        shared.run()
    return shared


def after(first: Mapping[str, str]) -> Due:
    """Returns `first` and the nodes that run after it, each with the first running node that it reads."""
    due = dict(first)
    for node in graph.NODES:
        running = [up for up in node.upstream if up in due]
        if running and node.id not in due and not node.resolves:
            due[node.id] = f"after {running[0]}, which runs"
    return {node: due[node] for node in IDS if node in due}


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
        edit(monkeypatch, "components/models/image.py")

        assert finished.due() == after({"Trainer": "code changed: components/models/image.py"})

    def test_a_helper_of_several_nodes(self, finished: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """Promise A15: each of them runs, and the first names the file."""
        edit(monkeypatch, "components/storage/durable.py")

        assert finished.due()["Ingest"] == "code changed: components/storage/durable.py"

    def test_an_unrelated_file(self, finished: Root, monkeypatch: pytest.MonkeyPatch) -> None:
        """Promise A15: no node depends on the code of the command line."""
        edit(monkeypatch, "pipelines/cli/run.py")

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


@pytest.mark.parametrize(("source", "runs"), [("image_folder", True), ("csv_rows", False)])
def test_only_the_source_in_use_counts(
    finished: Root, monkeypatch: pytest.MonkeyPatch, source: str, runs: bool
) -> None:
    """A15: Ingest depends on the code that reads this data, not on that of the task's other sources."""
    edit(monkeypatch, f"components/ingest/sources/{source}.py")

    assert ("Ingest" in finished.due()) == runs


def edit(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Makes fingerprints see other content in one source file."""
    sources = fingerprint.sources

    def edited(entries: tuple[str, ...]) -> dict[str, str]:
        return {file: "edited" if file == name else digest for file, digest in sources(entries).items()}

    monkeypatch.setattr(fingerprint, "sources", edited)


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


class TestRequests:
    """--from, --to and --force."""

    def test_a_forced_node_runs_with_all_after_it(self, finished: Root) -> None:
        """Upper and lower case are the same."""
        assert finished.due(request=Request(force=frozenset({"transform"}))) == after(
            {"Transform": "forced by --force"}
        )

    def test_nodes_after_the_last_are_skipped(self, new: Root) -> None:
        """Only the nodes that the last one needs run."""
        planned = new.planned(request=Request(last="StatisticsGen"))

        assert [(each.node.id, each.action, each.reason) for each in planned.nodes] == [
            ("Ingest", RUN, "first run"),
            ("Schema", RUN, "first run"),
            ("StatisticsGen", RUN, "after Ingest, which runs"),
            *((name, SKIP, "after --to StatisticsGen") for name in IDS[3:]),
        ]

    def test_nodes_before_the_first_are_kept(self, root: Root) -> None:
        """Even if the data has changed since."""
        (root.data / "cats" / "1.png").unlink()
        planned = root.planned("train.epochs=3", request=Request(first="Trainer"))
        live_now = root.newest("Trainer", "model")

        assert [(each.node.id, each.action, each.reason) for each in planned.nodes] == [
            *((name, KEPT, "before --from Trainer") for name in IDS[:6]),
            ("Trainer", RUN, f"setting train.epochs changed: {EPOCHS} to 3"),
            ("Baseline", LOOK_UP, f"baseline model {live_now}"),
            ("Evaluator", RUN, "after Trainer, which runs"),
            ("Pusher", RUN, "after Trainer, which runs"),
        ]

    def test_the_first_node_is_not_forced(self, finished: Root) -> None:
        """It runs only if something it depends on has changed."""
        assert finished.due(request=Request(first="Trainer")) == {}

    def test_first_and_last_may_be_the_same(self, finished: Root) -> None:
        """One node alone."""
        request = Request(first="Trainer", last="Trainer")

        assert finished.due("train.epochs=3", request=request) == {
            "Trainer": f"setting train.epochs changed: {EPOCHS} to 3"
        }

    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            (Request(first="Trainr"), "unknown node 'Trainr': did you mean 'Trainer'?"),
            (Request(last="gates"), "unknown node 'gates': did you mean 'Gate'?"),
            (Request(force=frozenset({"zzz"})), f"unknown node 'zzz': known: {', '.join(sorted(IDS))}"),
            (
                Request(first="Pusher", last="Trainer"),
                "--from Pusher --to Trainer: Pusher does not come before Trainer",
            ),
        ],
    )
    def test_an_impossible_request_is_rejected(self, request_: Request, message: str, new: Root) -> None:
        """The message has the nearest name, or the order."""
        with pytest.raises(SettingsError) as refused:
            new.planned(request=request_)

        assert str(refused.value) == message

    def test_from_without_earlier_outputs_is_rejected(self, new: Root) -> None:
        """The message names the node without output and what to do."""
        with pytest.raises(SettingsError) as refused:
            new.planned(request=Request(first="Trainer"))

        assert str(refused.value) == "--from Trainer: Ingest has no output yet; run without --from first"

    def test_from_with_a_broken_output_is_rejected(self, root: Root) -> None:
        """Promise A14 holds for kept outputs as well."""
        (root.newest("Transform", "transform_graph") / "content").unlink()

        with pytest.raises(SettingsError) as refused:
            root.planned(request=Request(first="Trainer"))

        assert str(refused.value) == (
            "--from Trainer: the output of Transform is broken (transform_graph: content deleted); run without --from"
        )


class TestDataDifference:
    """How two sets of files differ."""

    @pytest.mark.parametrize(
        ("old", "new", "text"),
        [
            ({"a": "1"}, {"a": "1"}, "data changed"),
            ({"a": "1"}, {"b": "1"}, "data changed: 1 moved (a to b)"),
            ({"a": "1"}, {"a": "2"}, "data changed: 1 altered (a)"),
            ({"a": "1"}, {"a": "1", "c": "3", "b": "2"}, "data changed: 2 added (b)"),
            ({"a": "1", "c": "3", "b": "2"}, {"a": "1"}, "data changed: 2 removed (b)"),
            ({"a": "1"}, {"a": "1", "b": "1"}, "data changed: 1 added (b)"),
            ({"a": "1", "b": "1"}, {"a": "1"}, "data changed: 1 removed (b)"),
            (
                {"a": "1", "b": "2", "c": "3", "d": "4"},
                {"e": "1", "b": "9", "c": "3", "f": "5"},
                "data changed: 1 moved (a to e), 1 altered (b), 1 added (f), 1 removed (d)",
            ),
            ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}, "data changed: 2 altered (a)"),
            (
                {f"cats/{index}": str(index) for index in range(1_200)},
                {f"dogs/{index}": str(index) for index in range(1_200)},
                "data changed: 1,200 moved (cats/0 to dogs/0)",
            ),
            (
                {"cats/1": "1", "cats/2": "1"},
                {"dogs/1": "1", "dogs/2": "1"},
                "data changed: 2 moved (cats/1 to dogs/1)",
            ),
        ],
    )
    def test_every_kind_of_change_is_counted_with_an_example(
        self, old: dict[str, str], new: dict[str, str], text: str
    ) -> None:
        """Moved files first, then altered, added and removed ones."""
        assert data_difference(old, new) == text


def test_several_changed_settings_are_counted() -> None:
    """The first one is named."""
    old = {"settings": {"train": {"epochs": 3, "seed": 1}}}
    new = {"settings": {"train": {"epochs": 4, "seed": 2}}, "code": {}, "packages": {}, "upstream": {}}

    assert difference(old, new) == "setting train.epochs changed: 3 to 4 and 1 more"
