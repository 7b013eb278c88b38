"""A pipeline root with trained models, without training: real metadata, seals and SavedModels; and daily data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.serving import live, publish, versions
from components.serving.live import LiveModel, Move
from components.storage.location import Location
from components.storage.objects import ObjectPath
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import live_model
from pipelines.orchestration.metadata.store import Store
from tests.operate.daily_data import Data
from tests.pipeline_root import new_config, write_artifact

Files = dict[str, bytes]
Save = Callable[[int, Path], None]


def some_files(number: int, folder: Path) -> None:
    """Writes the files of a model, which differ by its number."""
    for name in ("saved_model.pb", "variables/variables.index", "assets/labels"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} of model {number}")


@dataclass
class Served:
    """A root whose models are trained, judged and pushed by hand."""

    config: RunConfig
    record: Callable[..., tuple[int, dict[str, int]]]
    scratch: Path
    save: Save = some_files

    def train(self, number: int, blessed: int = 1) -> LiveModel:
        """Writes a model as the Trainer does, and its verdict as the Evaluator does."""
        folder, local = self.config.root / "Trainer" / "model" / str(number), self.scratch / str(number)
        self.save(number, local / "Format-Serving")
        write_artifact(self.config, local, folder)
        properties = {"trained_on": f"data {number}", "spans": f"s{number:05d}", "run": f"run {number}"}
        _, ids = self.record("Trainer", outputs={"model": folder}, properties=properties)
        verdict = {"blessed": blessed, "current_model_id": ids["model"]}
        self.record("Evaluator", outputs={"blessing": self.scratch / "blessing"}, properties=verdict)
        (artifact,) = Store(self.config.metadata, self.config.name).artifacts(ids.values(), "model")
        return live_model.lineage(artifact, versions.digest_of(folder / "Format-Serving"))

    def push(self, model: LiveModel) -> Move:
        """Pushes a model as the Pusher does."""
        files = (self.config.root / "Trainer" / "model" / model.uri.rpartition("/")[2]) / "Format-Serving"
        move = Move("push", "", live.now(), "run@host", "blessed", model)
        return publish.publish(files, live_model.home_of(self.config), move)

    def pushed(self, *numbers: int) -> list[Move]:
        """Trains and pushes some models."""
        return [self.push(self.train(number)) for number in numbers]

    def served(self, version: int) -> Files:
        """Returns the files of a version, but its provenance."""
        found = self.files(self.config.serving / str(version))
        return {name: content for name, content in found.items() if name != "assets.extra/provenance.json"}

    def files(self, folder: Location) -> Files:
        """Returns every file below a folder."""
        if isinstance(folder, ObjectPath):
            return {name: (folder / name).read_bytes() for name in folder.files_below()}
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    def model(self, number: int) -> Files:
        """Returns the files of a trained model."""
        return self.files(self.config.root / "Trainer" / "model" / str(number) / "Format-Serving")


@pytest.fixture
def make_served(
    tmp_path: Path, open_metadata: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Served]:
    """Returns a function that makes a root: on this machine, or at a URI."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_ACTOR", "ann@host")
    monkeypatch.delenv("PENSTOCK_SETTINGS", raising=False)

    def make(root: str | None = None, flags: Sequence[str] = ()) -> Served:
        config = new_config(tmp_path, root, flags)
        return Served(config, open_metadata(config.state / "metadata.db"), tmp_path / "scratch")

    return make


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """Two days, before the one that is due."""
    made = Data(tmp_path)
    made.write("2026-11-01", "2026-11-02")
    return made


@pytest.fixture
def root(make_served: Callable[..., Served]) -> Served:
    """A root on this machine."""
    return make_served()
