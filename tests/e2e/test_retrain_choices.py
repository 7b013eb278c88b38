"""Days on which a retraining has to choose: a warm start that loses, a model that is not better, a rollback."""

import csv
import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.all]

SETTINGS = ("ingest.window=last 1", "evaluate.max_drop=1", "evaluate.min_accuracy=0", "gate.drift=off")
SHORT = ("train.epochs=2", "train.learning_rate=0.001")  # enough to learn, and not to learn the opposite
ANT, WASP = "ant", "wasp"


def write_day(folder: Path, day: int, label: Callable[[str, random.Random], str]) -> None:
    """Writes 300 rows, whose size decides the kind; `label` returns what it is called."""
    file, chosen = folder / str(day) / "a.csv", random.Random(day)
    file.parent.mkdir(parents=True)
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["size", "label"])
        for number in range(300):
            kind = (ANT, WASP)[number % 2]
            rows.writerow([round(chosen.gauss(3 * len(kind), 0.6), 3), label(kind, chosen)])


def right(kind: str, _: random.Random) -> str:
    """Labels as they are."""
    return kind


def swapped(kind: str, _: random.Random) -> str:
    """Labels that contradict those of other days."""
    return WASP if kind == ANT else ANT


def guessed(_: str, chosen: random.Random) -> str:
    """Labels that nothing can predict."""
    return chosen.choice([ANT, WASP])


def test_days_with_a_choice(tmp_path: Path, make_pipeline: Any) -> None:
    """A cold start wins over a model of swapped labels, also if the call is killed between the two trainings.

    C6: a day that cannot be learned ends with exit code 3 and leaves the live model; after a rollback, base and
    baseline of the next day are the model that is live again.
    """
    data, root = tmp_path / "data", tmp_path / "root"
    pipeline = make_pipeline(Path(f"{data}/{{SPAN}}/*.csv"), root, task="tabular")

    def arguments(day: int, *settings: str) -> list[str]:
        chosen = (word for each in (*SETTINGS, *settings) for word in ("--set", each))
        return ["retrain", *pipeline.arguments(*chosen, "--span", str(day))[1:]]

    def models(node: str) -> dict[str, str]:
        found = pipeline.store().inputs(pipeline.newest(node).id)
        return {name: str(each.uri) for name, each in found.items() if "model" in name}

    def ledger(day: int) -> Any:
        return json.loads((root / ".penstock" / "ticks" / "tabular" / f"{day}.json").read_bytes())[-1]

    write_day(data, 1, swapped)
    first = pipeline.server.run(*arguments(1, "train.epochs=100", "train.learning_rate=0.03"))
    (poisoned,) = (
        str(each.uri) for each in pipeline.store().outputs(pipeline.newest("Trainer").id) if each.name == "model"
    )

    write_day(data, 2, right)
    checked = arguments(2, *SHORT, "train.cold_check=1")
    killed = pipeline.server.start_command(*checked)
    pipeline.wait_until_running("Trainer", killed)
    pipeline.wait_until_running("Trainer", killed, after=pipeline.newest("Trainer").id)
    killed.stop(signal.SIGKILL)
    second = pipeline.server.run(*checked)
    trained = len(list(pipeline.store().finished("Trainer")))
    again = pipeline.server.run(*checked)

    assert [each.code for each in (first, second, again)] == [0, 0, 0], first.output + second.output
    assert trained == 3  # one warm and one cold start of day 2: neither was trained twice
    assert "a cold start is trained, too, and compared (train.cold_check = 1)" in second.output
    check = ledger(2)["check"]
    assert check["cold"] > check["warm"] + check["allowed"]
    assert second.output.splitlines()[-1].startswith("span 2: pushed version 2, cold start: accuracy ")
    assert (ledger(2)["warm_start"], ledger(2)["has_base"]) == ("none", False)
    assert ledger(2)["scores"]["newest span"]["accuracy"] == pytest.approx(check["cold"])
    assert "cold start goes on" in (root / "report.html").read_text()
    assert again.output.splitlines()[-1] == "done: span 2, version 2 is live"
    assert "MetadataStore" not in second.output

    write_day(data, 3, guessed)
    third = pipeline.server.run(*arguments(3, *SHORT, "evaluate.min_accuracy=0.95"))

    assert third.code == 3, third.output
    assert third.output.splitlines()[-1].startswith("span 3: not better: not blessed: accuracy is 0.")
    assert third.output.splitlines()[-1].endswith("; version 2 is live")
    assert sorted(each.name for each in (root / "serving").iterdir() if each.name.isdigit()) == ["1", "2"]

    back = pipeline.server.run("models", "rollback", "tabular", "--root", str(root), "--reason", "a test")
    write_day(data, 4, swapped)
    fourth = pipeline.server.run(*arguments(4, *SHORT, "train.cold_check=1"))

    assert (back.code, fourth.code) == (0, 0), back.output + fourth.output
    assert models("Evaluator")["baseline_model"] == poisoned
    warm = next(e for e in pipeline.store().finished("Trainer") if "base_model" in pipeline.store().inputs(e.id))
    assert str(pipeline.store().inputs(warm.id)["base_model"].uri) == poisoned
    assert ledger(4)["start"].startswith("warm start kept: accuracy ")
    assert fourth.output.splitlines()[-1] == "span 4: pushed version 4, warm start from the live model"
