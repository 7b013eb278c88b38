"""Facts that are read from the artifacts of a run."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from components.records import manifest
from components.records.manifest import Manifest
from components.serving.live import LiveModel, LivePointer, Move
from pipelines.orchestration import plan
from pipelines.orchestration.graph import Node
from pipelines.orchestration.metadata.store import Artifact, Execution, Store
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.plan import NodePlan, Plan
from pipelines.report import gather, trained
from pipelines.report.facts import TrainingFacts

HISTORY = {
    "input": {
        "verdict": "not input-bound: the device waits 1 % of the time",
        "records_per_second": [800.0, 900.0],
        "seconds": [4.0, 2.0],
        "waited": [1.0, 0.5],
    },
    "learning_rate": [0.002, 0.001],
    "memory": {"host": 1234.4, "devices": {"GPU:0": 2345.6}},
    "batch": {"size": 64, "replica": 32, "scale": 1, "accumulate": 4, "effective": 256, "chosen": True},
    "devices": {"names": ["GPU:0", "GPU:1"], "workers": 1, "replicas": 2},
    "steps_per_call": {"last": 8, "chosen": True},
    "resumed": [{"note": "resumed at epoch 3, step 118 (stopped by SIGTERM at 10:42:07)"}],
}


@pytest.mark.parametrize(
    ("classes", "label", "source", "expected"),
    [
        ({"train": {"a": 1, "b": 2}}, "label", "kind", "kind: classification in 2 classes"),
        ({"train": {}}, "label", "price", "price: regression"),
        ({"train": {"a": 1, "b": 2}}, "label", "", "names of the folders: classification in 2 classes"),
        ({"train": {}}, "", "", ""),
    ],
)
def test_label_and_notes_come_from_the_manifest(
    classes: dict[str, dict[str, int]], label: str, source: str, expected: str, tmp_path: Path
) -> None:
    """A17: the column has the name that it has in the data."""
    made = Manifest(
        "", 3, manifest.SourceTotals(), (), classes, 0, {}, 0, (), label, source, ("first line read as data",)
    )
    manifest.write(tmp_path, made, ())

    stored = manifest.read(tmp_path)

    assert (stored, gather._label(stored)) == (made, expected)


def test_the_list_of_near_duplicates_has_its_path(tmp_path: Path) -> None:
    """The manifest knows only its name."""
    made = Manifest(
        "",
        3,
        manifest.SourceTotals(),
        (),
        {"train": {}},
        0,
        {},
        0,
        ("2 pairs; all are listed in near_duplicates.jsonl",),
    )

    assert made.warnings_in(tmp_path) == [f"2 pairs; all are listed in {tmp_path / 'near_duplicates.jsonl'}"]


def test_how_the_trainer_ran_comes_from_the_history() -> None:
    """Throughput, waiting and learning rate per epoch; batch size, memory and resumes as text."""
    assert trained.training(HISTORY) == TrainingFacts(
        samples_per_second=(800.0, 900.0),
        waiting=(0.25, 0.25),
        learning_rate=(0.002, 0.001),
        details=(
            ("input", "not input-bound: the device waits 1 % of the time"),
            ("batch size", "64, chosen from the data"),
            ("devices", "2: GPU:0, GPU:1"),
            ("batch per device", "32"),
            ("records per update", "256"),
            ("steps per call", "8, chosen by their duration"),
            ("peak memory", "1,234 MB (process)"),
            ("peak memory of GPU:0", "2,346 MB"),
            ("resumed", "at epoch 3, step 118 (stopped by SIGTERM at 10:42:07)"),
        ),
    )


def test_a_metric_that_is_not_finite_is_drawn_as_such(tmp_path: Path) -> None:
    """JSON has no NaN: the history holds null."""
    stored = {"best_epoch": 1, "epochs": {"auc": [float("nan"), 0.5], "val_auc": [0.5, 0.6]}}
    (tmp_path / "history.json").write_bytes(orjson.dumps(stored))
    found = trained.facts({"model_run": Artifact(1, "model_run", tmp_path, True, {})})["curves"]

    assert repr(found) == "{'auc': {'train': (nan, 0.5), 'eval': (0.5, 0.6)}}"


def test_an_older_history_is_no_error() -> None:
    """`--from Evaluator` keeps a model that was trained before these facts were recorded."""
    assert trained.training({key: value for key, value in HISTORY.items() if key != "memory"}) is None


def test_the_confusion_matrix_has_only_classes() -> None:
    """A prediction that is not finite (-2) and a label that is no class (-1) are not counted as the last classes."""
    assert gather._confusion(2, [(0, 0, 3), (0, -2, 4), (-1, 1, 5), (1, 0, 6)]) == ((3, 0), (6, 0))


def test_what_a_run_did_not_reach_is_not_its_own(tmp_path: Path) -> None:
    """The Gate failed: nodes after it whose outputs are up to date have not been confirmed as such."""
    made = {name: Execution(at, name, "COMPLETE", {}, None, {}) for at, name in enumerate(["Ingest", "Gate", "Pusher"])}
    planned = Plan(
        (
            NodePlan(Node("Ingest"), plan.CACHED, "", execution=made["Ingest"]),
            NodePlan(Node("Gate"), plan.RUN, ""),
            NodePlan(Node("Pusher"), plan.CACHED, "", execution=made["Pusher"]),
        )
    )
    states = {"Ingest": "cached", "Gate": "failed", "Pusher": "skipped"}
    nodes = tuple(NodeFacts(name, state, 0.0, "") for name, state in states.items())
    store = Store(tmp_path / "metadata.sqlite", "a")

    assert gather._executions(store, planned, nodes) == {"Ingest": made["Ingest"]}


def test_the_spans_that_a_live_model_was_not_trained_on() -> None:
    """Of this run's own model, which is live already, those that the model before it did not have."""
    before, own = (LiveModel(at, "m", spans=tuple(f"s{day}" for day in range(at))) for at in (2, 3))
    pointer = LivePointer("p", tuple(Move("push", f"/s/{each.artifact}", "", "", "", each) for each in (before, own)))
    model, other = (Artifact(number, "model", Path(), True, {}) for number in (3, 4))

    assert gather._unknown(("s0", "s1", "s2", "s3"), pointer, model) == ("s2", "s3")
    assert gather._unknown(("s0", "s1", "s2", "s3"), pointer, other) == ("s3",)
    assert gather._unknown(("s0", "s1"), None, None) == ("s0", "s1")


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        ({"pushed": True, "version": "4", "destination": "/serving/4"}, "blessed and pushed as version 4"),
        (
            {"pushed": True, "version": "3", "destination": "/serving/3"},
            "blessed and pushed as version 3; version 4 is live (rollback by ann: bad labels)",
        ),
        (
            {"pushed": False, "withdrawn": True},
            (
                "blessed, not pushed, because this model was withdrawn (penstock models promote brings it back); "
                "version 4 is live (rollback by ann: bad labels)"
            ),
        ),
    ],
    ids=["live", "rolled back", "withdrawn"],
)
def test_the_outcome_names_another_live_version(pushed: dict[str, Any], expected: str) -> None:
    """Not the version that the run pushed is in use, but the one of a rollback."""
    live = Move("rollback", "/serving/4", "", "ann", "bad labels", LiveModel(1, "model"))

    assert gather._outcome(Plan(()), True, pushed, {}, None, live) == expected
