"""A pipeline that starts each training from its last blessed model, as a user runs it."""

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

# tests/training/test_warm_start.py tests in `make test` which weights are copied and mapped.
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.all]

LIVE = ("--set", "train.warm_start=live")


def write_texts(file: Path, classes: Sequence[str], seed: int) -> None:
    """Writes 240 texts, each with words of its class among common ones."""
    chosen, common = random.Random(seed), ["the", "of", "and", "to", "in"]
    file.parent.mkdir(exist_ok=True)
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "label"])
        for number in range(240):
            name = classes[number % len(classes)]
            words = [chosen.choice([f"{name}{chosen.randrange(12)}", chosen.choice(common)]) for _ in range(9)]
            rows.writerow([" ".join([*words, f"{name}{number % 12}"]), name])


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory, make_pipeline: Any) -> Any:
    """A pipeline of texts that has not run."""
    home = tmp_path_factory.mktemp("warm")
    return make_pipeline(home / "data", home / "root", task="text")


def test_new_data_starts_from_the_last_blessed_model(pipeline: Any) -> None:
    """With one class and its words new; what was mapped is reported, and a third run has nothing to do."""
    write_texts(pipeline.data / "1.csv", ["red", "blue", "green"], 1)
    first = pipeline.run(*LIVE)
    (model,) = (a for a in pipeline.store().outputs(pipeline.newest("Trainer").id) if a.name == "model")
    write_texts(pipeline.data / "2.csv", ["pink", "green", "red", "blue"], 2)
    second = pipeline.run(*LIVE)
    trained = pipeline.newest("Trainer")
    third = pipeline.run(*LIVE)

    assert (first.code, second.code, third.code) == (0, 0, 0), first.output + second.output + third.output
    assert "no base model yet: started from random weights" in first.output
    assert f"warm start from {model.uri}: weights 2 copied, 3 mapped (" in second.output
    assert model.id in pipeline.store().input_ids(trained.id)  # lineage
    (run,) = (artifact for artifact in pipeline.store().outputs(trained.id) if artifact.name == "model_run")
    done = json.loads((run.uri / "history.json").read_bytes())["warm_start"]
    assert (done["mapped"]["probabilities/bias"], done["fresh"]) == ([3, 4], [])
    report = (pipeline.root / "report.html").read_text()
    assert ("Warm start" in report, "mapped: 3 of 4 rows" in report) == (True, True)
    assert "nothing to do" in third.output
    assert third.reason("Base") == f"base model {model.uri}"


def test_training_starts_from_a_served_model(pipeline: Any) -> None:
    """Of the pipeline that the test above has run twice."""
    from_folder = pipeline.run("--set", f"train.warm_start={pipeline.root}/serving/1", "--to", "Trainer")

    assert from_folder.code == 0, from_folder.output
    assert f"warm start from {pipeline.root}/serving/1: weights 2 copied, 3 mapped (" in from_folder.output
