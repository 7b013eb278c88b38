"""A pipeline root on a real metadata store, with real seals and hashes, without TFX.

Earlier runs are simulated from plans: each due node gets outputs, seals and an execution, as the runner writes them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from components import fingerprint
from components.ingest.close import manifest as closing
from components.ingest.sources.image_folder import SOURCE
from components.ingest.survey import listing
from components.records import manifest, seal
from components.serving import live
from components.serving.live import Move
from components.settings.tree import Settings
from components.storage.hashing import HashCache
from pipelines import config as run_config
from pipelines.config import RunConfig
from pipelines.orchestration import graph, plan
from pipelines.orchestration.metadata import live_model, seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.plan import (
    RUN,
    NodePlan,
    Plan,
    Request,
)

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


def edit_source(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Makes fingerprints see other content in one source file."""
    sources = fingerprint.sources

    def edited(entries: tuple[str, ...]) -> dict[str, str]:
        return {file: "edited" if file == name else digest for file, digest in sources(entries).items()}

    monkeypatch.setattr(fingerprint, "sources", edited)
