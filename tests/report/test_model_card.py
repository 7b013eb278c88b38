"""The model card of a run, as a whole value."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from components.records import manifest
from components.records.manifest import Manifest, Shard
from pipelines import config as run_config
from pipelines.orchestration.metadata.store import Artifact, Execution
from pipelines.orchestration.outcome import NodeFacts
from pipelines.report import model_card, page
from pipelines.report.facts import RunFacts

PROOF = {
    "records": 30,
    "split": "eval",
    "compared": "probability of each class",
    "tolerance": 1e-5,
    "largest_difference": {"evaluation": 0.0, "serving_default": 3e-8, "raw": 3e-8},
    "unproven": {},
    "seconds": 1.5,
}
INGEST = {"key": "k1", "data_digest": "d1", "settings": {"ingest": {"shard_mb": 9}}, "packages": {"numpy": "1"}}
TRANSFORM = {"settings": {"input": {"max_tokens": 5}}, "packages": {"tfx": "1.16", "tensorflow": "2.16"}}
TRAINER = {
    "key": "k4",
    "settings": {
        "train": {"seed": 5, "warm_start": "/home/me/base/7", "step": "mine:step"},
        "input": {"max_tokens": 6, "cache_directory": "/home/me/cache"},
        "push": {"directory": "/srv"},
    },
    "made_with": {"python": "3.10.1", "penstock": "0.1"},
    "packages": {"tensorflow": "2.17"},
}
CLASSES = {"train": {"0": 20, "1": 40}, "eval": {"0": 10, "1": 20}}


@pytest.fixture
def config(tmp_path: Path) -> run_config.RunConfig:
    """An image pipeline whose settings are others than those of the model's executions."""
    return run_config.make("image", data=str(tmp_path), root=str(tmp_path / "root"), flags=["train.seed=7"])


@pytest.fixture
def card(config: run_config.RunConfig, facts: RunFacts) -> Any:
    """Makes the card of a run with real artifacts; the label column has the given name."""

    def make(label: str = "kind") -> tuple[RunFacts, dict[str, Any]]:
        root = config.state
        examples, run = root / "Ingest" / "examples" / "1", root / "Trainer" / "model_run" / "4"
        examples.mkdir(parents=True)
        run.mkdir(parents=True)
        shards = (Shard("train", "a", 60, 1, ""), Shard("eval", "b", 30, 1, ""))
        sources = manifest.SourceTotals(1, 9)
        written = Manifest(
            "d1", 91, sources, shards, CLASSES, 1, {}, 0, ("a warning",), "label", label, ("line 1 is data",)
        )
        manifest.write(examples, written, ())
        (run / "history.json").write_bytes(orjson.dumps({"best_epoch": 2, "epochs": {"records": [60] * 4}}))
        outputs = {
            "Ingest": {"examples": Artifact(1, "examples", examples, True, {})},
            "Trainer": {
                "model": Artifact(2, "model", root / "Trainer" / "model" / "4", True, {}),
                "model_run": Artifact(3, "model_run", run, True, {}),
            },
        }
        used = {
            "Ingest": Execution(1, "Ingest", "COMPLETE", INGEST, None, {}),
            "Transform": Execution(3, "Transform", "COMPLETE", TRANSFORM, None, {}),
            "Trainer": Execution(4, "Trainer", "COMPLETE", TRAINER, None, {}),
            "Evaluator": Execution(5, "Evaluator", "COMPLETE", {}, None, {"by_class": {"0": 1.0}}),
        }
        found = replace(facts, proof=PROOF)
        made = model_card.make(config, found, used, {**outputs, "Transform": {}, "Evaluator": {}})
        return replace(found, card=made), made

    return make


def test_a_card_has_data_metrics_proof_lineage_settings_and_versions(card: Any) -> None:
    """Paths are relative to the root or file names; settings and versions are those that the model was trained with."""
    _, made = card()

    assert made.pop("settings") == {
        "ingest": {"shard_mb": 9},
        "input": {"max_tokens": 6, "cache_directory": "cache"},
        "train": {"seed": 5, "warm_start": "7", "step": "mine:step"},
    }
    assert made.pop("versions") == {
        "numpy": "1", "tfx": "1.16", "tensorflow": "2.17", "python": "3.10.1", "penstock": "0.1",
    }  # fmt: skip
    assert made == {
        "pipeline": "digits",
        "task": "image",
        "run_started": "2025-11-14T09:26:53Z",
        "model": {"label": "kind", "classes": ["0", "1", "2"], "blessed": True, "version": "3", "live_version": 4},
        "data": {
            "digest": "d1",
            "files": 1,
            "records": {"train": 60, "eval": 30},
            "records_by_class": CLASSES,
            "quarantined": 1,
            "notes": ["line 1 is data"],
            "warnings": ["a warning"],
        },
        "training": {"seed": 5, "epochs": 4, "best_epoch": 3},
        "evaluation": {
            "split": "test",
            "metrics": {"accuracy": 0.9, "macro_f1": 0.89},
            "thresholds": [{"metric": "accuracy", "value": 0.9, "threshold": "at least 0.6", "passed": True}],
            "by_class": {"0": 1.0},
            "slices": [
                {"column": "length", "value": "long", "accuracy": 0.8, "records": 5},
                {"column": "length", "value": "short", "accuracy": 1.0, "records": 25},
            ],
        },
        "proof": PROOF,
        "lineage": {
            "Ingest": {
                "execution": 1,
                "cache_key": "k1",
                "data_digest": "d1",
                "outputs": {"examples": "Ingest/examples/1"},
            },
            "Transform": {"execution": 3, "cache_key": "", "outputs": {}},
            "Trainer": {
                "execution": 4,
                "cache_key": "k4",
                "outputs": {"model": "Trainer/model/4", "model_run": "Trainer/model_run/4"},
            },
            "Evaluator": {"execution": 5, "cache_key": "", "outputs": {}},
        },
    }


def test_a_pushed_version_has_its_card_beside_it(card: Any, config: run_config.RunConfig) -> None:
    """Also if an earlier run pushed it and was killed before it wrote the card; the run's card is in the root."""
    found, made = card()
    (config.state / "serving").mkdir()
    model_card.write(replace(found, nodes=(NodeFacts("Pusher", "cached", 0.1, ""),)), config)

    assert orjson.loads((config.state / "model_card.json").read_bytes()) == made
    assert orjson.loads(((config.state / "serving") / "model_card-3.json").read_bytes()) == made


def test_a_pushed_version_keeps_its_card(card: Any, config: run_config.RunConfig) -> None:
    """A later run that pushes nothing leaves it as it is."""
    found, _ = card()
    (config.state / "serving").mkdir()
    ((config.state / "serving") / "model_card-3.json").write_text("{}")
    model_card.write(found, config)

    assert ((config.state / "serving") / "model_card-3.json").read_text() == "{}"


def test_secrets_are_removed(card: Any) -> None:
    """D5: a password in a value of the card is replaced."""
    _, made = card("postgres://me:swordfish@host/db")

    assert made["model"]["label"] == "postgres://***@host/db"


def test_the_report_shows_the_card_escaped(card: Any) -> None:
    """D6: with the digest of the data, the differences of the proof and the artifacts."""
    found, made = card()
    made["lineage"]["Ingest"]["outputs"]["examples"] = "<script>alert(1)</script>"
    shown = page.render(replace(found, card=made)).replace("<wbr>", "")

    assert "1 file, digest d1" in shown
    assert "evaluation 0.0e+00, serving_default 3.0e-08, raw 3.0e-08" in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt; (cache key k1)" in shown
    assert "<script>" not in shown


def test_a_run_without_a_model_has_no_card(facts: RunFacts, config: run_config.RunConfig) -> None:
    """An earlier run's card is not touched."""
    config.state.mkdir()
    (config.state / "model_card.json").write_text("{}")
    model_card.write(replace(facts, card=model_card.make(config, facts, {}, {})), config)

    assert (config.state / "model_card.json").read_text() == "{}"
