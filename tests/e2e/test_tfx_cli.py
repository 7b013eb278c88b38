"""The `tfx` command runs the same pipeline as `penstock run`."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.records import manifest
from data.digits import write_image_folder
from pipelines.orchestration import graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PROJECT = Path(__file__).resolve().parents[2]
COMMAND = "from tfx.tools.cli.cli_main import cli_group; cli_group()"  # as the installed script
NODES = [node.id for node in graph.NODES]
SETTINGS = """
[image]
train.epochs = 1
evaluate.min_accuracy = 0
gate.min_per_class = 0
"""


@dataclass(frozen=True)
class TwoRuns:
    """A pipeline that `tfx run create` has run twice, with each node's state after each run."""

    pipeline: Any
    first: dict[str, str]
    second: dict[str, str]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any, fork_server: Any) -> TwoRuns:
    """A pipeline on 300 digits that is created once and run twice; the installed command does the first run."""
    home = tmp_path_factory.mktemp("tfx")
    write_image_folder(home / "images", 300)
    (home / "quick.toml").write_text(SETTINGS)
    pipeline = make_pipeline(home / "images", home / "root")

    environment = {
        **os.environ,
        "LOCAL_HOME": str(home / "tfx"),
        "PENSTOCK_DATA": str(home / "images"),
        "PENSTOCK_ROOT": str(home / "root"),
        "PENSTOCK_SETTINGS": str(home / "quick.toml"),
    }

    def forked(arguments: list[str]) -> None:
        done = fork_server.start(COMMAND, arguments, environment, PROJECT).wait()
        assert done.code == 0, done.output

    def installed(arguments: list[str]) -> None:
        tfx = Path(sys.executable).with_name("tfx")
        done = subprocess.run(
            [str(tfx), *arguments], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def states() -> dict[str, str]:
        return {node: pipeline.newest(node).state for node in NODES}

    forked(["pipeline", "create", "--pipeline_path", "pipelines/image.py", "--engine", "local"])
    run = ["run", "create", "--pipeline_name", "image", "--engine", "local"]
    installed(run)
    first = states()
    forked(run)
    return TwoRuns(pipeline, first, states())


def test_first_run_completes_every_node_and_pushes_a_model(two_runs: TwoRuns) -> None:
    """Each node's ledger has as many records as the node before it wrote, as after `penstock run`."""
    pipeline = two_runs.pipeline
    (examples,) = pipeline.store().outputs(next(pipeline.store().finished("Ingest")).id)
    counts = manifest.read(examples.uri).records
    ledgers = {node: next(pipeline.store().finished(node)).ledger for node in NODES}

    assert two_runs.first == dict.fromkeys(NODES, "COMPLETE")
    assert {node: (each["records_in"], each["records_out"]) for node, each in ledgers.items() if each} == {
        "Ingest": (300, 300),
        "StatisticsGen": (300, 300),
        "Transform": (counts["train"], counts["train"]),
        "Trainer": (counts["train"] + counts["eval"],) * 2,
        "Evaluator": (counts["test"],) * 2,
    }
    assert (pipeline.root / "serving" / "1" / "saved_model.pb").exists()


def test_second_run_records_every_node_as_cached(two_runs: TwoRuns) -> None:
    """The second run finds every node up to date and pushes nothing; the baseline is looked up in every run."""
    assert two_runs.second == {**dict.fromkeys(NODES, "CACHED"), "Baseline": "COMPLETE"}
    assert not (two_runs.pipeline.root / "serving" / "2").exists()
