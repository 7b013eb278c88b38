"""The other tasks on a real Flink cluster: the same results as on the direct runner."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.tasks import NAMES
from data.__main__ import generators

pytestmark = pytest.mark.engine
TASKS = ("image", "text", "tensor", "multimodal")  # tabular: test_tabular.py
FEW = ("--set", "train.epochs=1", "--set", "evaluate.min_accuracy=0")


def test_every_task_is_tested() -> None:
    """A new task needs a run on Flink."""
    assert {*TASKS, "tabular"} == set(NAMES)


@pytest.mark.parametrize("task", TASKS)
def test_results_equal_those_of_the_direct_runner(
    task: str,
    healthy: Any,
    tmp_path: Path,
    read_outcome: Callable[[Path, str], Any],
    compare_statistics: Callable[[Path, Path], None],
) -> None:
    """Shards, fitted files and weights are byte-equal, metrics and ledgers are equal, statistics within 1e-6."""
    generators()[task].main(["--out", str(tmp_path / "data")])
    common = ("run", task, "--data", str(tmp_path / "data"), *FEW)
    for runner in ("direct", "flink"):
        code, output = healthy.run(*common, "--root", str(tmp_path / runner), "--runner", runner)
        assert code == 0, output

    assert read_outcome(tmp_path / "flink", task) == read_outcome(tmp_path / "direct", task)
    compare_statistics(tmp_path / "direct", tmp_path / "flink")
    if task == "image":  # eight shards per split, where the other samples have one
        assert_distributed(healthy)


def assert_distributed(engine: Any) -> None:
    """Every task manager writes shards and reads them: no stage keeps all files in one subtask."""
    parts = {
        "ingest": "WriteShards",
        "statisticsgen": "{Read[",
        "transform": "{Shards, ",
        "evaluator": "{ReadFrom",
    }
    for node, part in parts.items():
        (job,) = engine.jobs(f"penstock-image-{node}-")[:1]
        stages = [each for each in engine.flink.vertices(job.id) if part in each["name"]]
        assert stages, node
        for stage in stages:
            read = [each["metrics"]["read-records"] for each in engine.flink.subtasks(job.id, stage["id"])]
            assert len(read) == 2, (node, stage["name"])
            assert min(read) > 0, (node, stage["name"], read)


def test_embeddings_of_extract_equal_those_of_the_direct_runner(healthy: Any, tmp_path: Path) -> None:
    """Extract writes the same shards on Flink."""
    import keras

    generators()["image"].main(["--out", str(tmp_path / "data")])
    model = keras.Sequential(
        [keras.layers.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(4, use_bias=False)]
    )
    model.save(tmp_path / "model.keras")
    extract = ("--set", f"extract.model={tmp_path / 'model.keras'}", "--to", "Extract")
    for runner in ("direct", "flink"):
        common = ("run", "image", "--data", str(tmp_path / "data"), *extract)
        code, output = healthy.run(*common, "--root", str(tmp_path / runner), "--runner", runner)
        assert code == 0, output

    shards = [
        {file.name: file.read_bytes() for file in sorted((tmp_path / runner).glob("Extract/extracted/*/Split-*/*"))}
        for runner in ("direct", "flink")
    ]
    assert len(shards[0]) >= 3
    assert shards[0] == shards[1]
