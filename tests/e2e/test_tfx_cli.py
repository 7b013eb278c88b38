"""The `tfx` command runs the same pipeline as `penstock run`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.records import manifest
from pipelines.orchestration import graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NODES = [node.id for node in graph.NODES]


@dataclass(frozen=True)
class TwoRuns:
    """A pipeline that `tfx run create` has run twice, with each node's state after each run."""

    pipeline: Any
    first: dict[str, str]
    second: dict[str, str]


@pytest.fixture(scope="module")
def two_runs(tfx_runs: Path, make_pipeline: Any) -> TwoRuns:
    """The two runs of the `tfx` command; the installed command did the first one."""
    states = json.loads((tfx_runs / "states.json").read_text())
    return TwoRuns(make_pipeline(tfx_runs / "images", tfx_runs / "root"), *states)


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
