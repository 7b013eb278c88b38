"""A pipeline that starts each training from its last blessed model, as a user runs it."""

import csv
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

# `make test` has one warm start, of test_retrain.py; tests/training/test_warm_start.py tests what is copied and mapped.
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


def test_new_data_starts_from_the_last_blessed_model(tmp_path: Path, make_pipeline: Any) -> None:
    """With one class and its words new; a third run has nothing to do; after a rollback, the next starts from it."""
    pipeline = make_pipeline(tmp_path / "data", tmp_path / "root", task="text")
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

    from_folder = pipeline.run("--set", f"train.warm_start={pipeline.root}/serving/1", "--to", "Trainer")

    assert from_folder.code == 0, from_folder.output
    assert f"warm start from {pipeline.root}/serving/1: weights 2 copied, 3 mapped (" in from_folder.output

    command = ("models", "rollback", "text", "--root", str(pipeline.root), "--reason", "pink is wrong")
    rolled_back = pipeline.server.run(*command)
    after = pipeline.run(*LIVE)
    write_texts(pipeline.data / "3.csv", ["red", "blue", "green"], 3)
    planned = pipeline.run(*LIVE, "--dry-run")

    assert rolled_back.code == 0, rolled_back.output
    assert "version 3 is live: version 1, model" in rolled_back.output
    assert "nothing to do" in after.output
    assert re.search(r"pushed as version 2; version 3 is live \(rollback by \S+: pink is wrong\)", after.output)
    assert planned.reason("Base") == f"base model {model.uri}"
    assert planned.reason("Baseline") == f"baseline model {model.uri}"
