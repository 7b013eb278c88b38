"""A pipeline that was retrained for some nights, without training: real metadata, files, hard links and versions."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from components.serving import live, publish, versions
from components.serving.live import LiveModel, LivePointer, Move
from components.storage.location import Location
from pipelines.config import RunConfig
from pipelines.orchestration.metadata import live_model
from tests.pipeline_root import new_config, write_artifact

_SHARD = 64 << 10  # bytes


@dataclass
class Nightly:
    """A root, and what writes a night's run into it."""

    config: RunConfig
    record: Callable[..., tuple[int, dict[str, int]]]
    scratch: Path
    executions: int = 0
    nights: int = 0
    schema: int = 0
    shards: list[Path] = field(default_factory=list)  # of the newest night

    def write(self, node: str, key: str, inputs: dict[int, str] | None = None, **more: Any) -> tuple[Location, int]:
        """Writes the output of one node, of a run that is named after the night; returns its folder and its id."""
        number = self.executions + 1
        folder, local = self.config.root / node / key / str(number), self.scratch / str(number)
        local.mkdir(parents=True)
        for name, content in more.pop("files", {"data": b"1"}).items():
            (local / name).parent.mkdir(parents=True, exist_ok=True)
            (local / name).write_bytes(content)
        write_artifact(self.config, local, folder)
        run = f"run {self.nights}"
        self.executions, ids = self.record(node, inputs=inputs or {}, outputs={key: folder}, run=run, **more)
        assert self.executions == number
        return folder, ids[key]

    def night(self, outcome: str = "pushed") -> None:
        """Runs the pipeline for one more night: half of the shards are those of the night before."""
        self.nights += 1
        if outcome == "failed":
            self.write("Ingest", "examples", state="FAILED", live=False)
            return
        examples, data = self.write("Ingest", "examples", files={"new": os.urandom(_SHARD)})
        if isinstance(examples, Path):
            if self.shards:
                os.link(self.shards[0], examples / "old")
            self.shards = [examples / "new"]
        if not self.schema:
            _, self.schema = self.write("Schema", "schema")
        self.write("StatisticsGen", "statistics", {data: "examples", self.schema: "schema"})
        _, graph = self.write("Transform", "transform_graph", {data: "examples", self.schema: "schema"})
        properties = {"trained_on": f"data {self.nights}", "run": f"run {self.nights}"}
        files = {"Format-Serving/saved_model.pb": os.urandom(_SHARD), "Format-Serving/assets/labels": b"cat dog"}
        inputs = {data: "examples", graph: "transform_graph"}
        folder, model = self.write("Trainer", "model", inputs, files=files, properties=properties)
        verdict = {"blessed": int(outcome == "pushed"), "current_model_id": model}
        _, blessing = self.write("Evaluator", "blessing", {data: "examples", model: "model"}, properties=verdict)
        pushed = {}
        if outcome == "pushed":
            digest = versions.digest_of(folder / "Format-Serving")
            made = LiveModel(model, str(folder), digest=digest, data_digest=f"data {self.nights}")
            move = Move("push", "", live.now(), "run@host", "blessed", made)
            move = publish.publish(folder / "Format-Serving", live_model.home_of(self.config), move)
            pushed = {"pushed_destination": move.folder}
        self.write("Pusher", "pushed_model", {model: "model", blessing: "model_blessing"}, properties=pushed)

    @property
    def pointer(self) -> LivePointer:
        """The live pointer."""
        found = live.read(self.config.root)
        assert found is not None
        return found


@pytest.fixture
def make_nightly(
    tmp_path: Path, open_metadata: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Nightly]:
    """Returns a function that makes an empty root: on this machine, or at a URI."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_SETTINGS", raising=False)

    def make(root: str | None = None, *flags: str) -> Nightly:
        config = new_config(tmp_path, root, flags)
        return Nightly(config, open_metadata(config.state / "metadata.db"), tmp_path / "scratch")

    return make
