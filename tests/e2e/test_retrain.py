"""Days of data, one retraining each, as a schedule calls it."""

import csv
import random
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from components.storage.objects import ObjectPath

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CHOSEN = ("train.epochs=4", "evaluate.max_drop=1", "evaluate.min_accuracy=0", "gate.drift=warn")  # a class is new
SETTINGS = tuple(word for setting in CHOSEN for word in ("--set", setting))


def write_day(folder: Path, day: str, version: int, classes: Sequence[str]) -> None:
    """Writes 150 rows, whose size decides the class."""
    file, chosen = folder / day / f"v{version}" / "a.csv", random.Random(f"{day} {version}")
    file.parent.mkdir(parents=True)
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["size", "label"])
        for number in range(150):
            name = classes[number % len(classes)]
            rows.writerow([round(chosen.gauss(3 * len(name), 0.6), 3), name])


def test_days_are_retrained(tmp_path: Path, make_pipeline: Any) -> None:
    """C7: a killed call goes on, a second one does nothing, and a late day or a gap is named.

    The next day has a new class, and a correction of an old day: the other old day is not read again.
    """
    data, root = tmp_path / "data", tmp_path / "root"
    pipeline = make_pipeline(Path(f"{data}/{{YYYY}}-{{MM}}-{{DD}}/v{{VERSION}}/*.csv"), root, task="tabular")

    def arguments(day: str) -> list[str]:
        return ["retrain", *pipeline.arguments(*SETTINGS, "--span", day)[1:]]

    write_day(data, "2024-02-28", 1, ["ant", "wasp"])
    write_day(data, "2024-02-29", 1, ["ant", "wasp"])
    killed = pipeline.server.start_command(*arguments("2024-02-29"))
    pipeline.wait_until_running("Trainer", killed)
    killed.stop(signal.SIGKILL)
    first = pipeline.server.run(*arguments("2024-02-29"))
    again = pipeline.server.run(*arguments("2024-02-29"))
    late = pipeline.server.run(*arguments("2024-03-01"))
    write_day(data, "2024-03-02", 1, ["ant", "wasp"])
    gap = pipeline.server.run(*arguments("2024-03-02"))
    old = {shard.name: shard.stat().st_ino for shard in (root / "Ingest").rglob("data_tfrecord-*")}
    write_day(data, "2024-02-29", 2, ["ant", "wasp"])
    write_day(data, "2024-03-01", 1, ["ant", "wasp", "butterfly"])
    accepted = ("--accept", "classes:label", "--accept", "drift:size", "--because", "butterflies are new")
    second = pipeline.server.run(*arguments("2024-03-01"), *accepted)
    linked = {shard.name for shard in (root / "Ingest").rglob("data_tfrecord-*") if shard.stat().st_nlink > 1}

    assert [each.code for each in (first, again, late, gap, second)] == [0, 0, 9, 9, 0], first.output + second.output
    assert "an earlier run was killed in this node" in first.output
    assert first.output.splitlines()[-1] == "span 2024-02-29: pushed version 1, cold start: no earlier model"
    assert again.output.splitlines()[-1] == "done: span 2024-02-29, version 1 is live"
    assert "span 2024-03-01 is not there: no file " in late.output
    assert "1 older spans of its window 2024-02-28..2024-03-02 are missing, 0 allowed" in gap.output
    assert "statistics of new spans 2024-02-29, 2024-03-01 alone" in second.output  # corrected, and new
    assert "span 2024-03-01: window 2024-02-28..2024-03-01, 3 spans" in second.output
    assert re.search(
        r"^newest span: accuracy [01]\.\d{4} \(live 0\.\d{4}\) on \d+ test records; "
        r"window: accuracy [01]\.\d{4} \(live 0\.\d{4}\) on \d+ test records$",
        second.output,
        re.MULTILINE,
    )
    assert second.output.splitlines()[-2:] == [
        "classes: new: butterfly (weights start from random values)",
        "span 2024-03-01: pushed version 2, warm start from the live model",
    ]
    assert linked == {name for name in old if "s20240228" in name}


@pytest.mark.all
def test_days_are_retrained_with_the_root_on_an_object_store(
    tmp_path: Path, make_pipeline: Any, s3_bucket: str
) -> None:
    """Shards of the old day are copied by the store, training starts from the live model, and versions are there."""
    data, root = tmp_path / "data", ObjectPath(f"{s3_bucket}/pipelines/table")
    pipeline = make_pipeline(Path(f"{data}/{{YYYY}}-{{MM}}-{{DD}}/v{{VERSION}}/*.csv"), root, task="tabular")
    state = ("--state", str(tmp_path / "state"))

    def retrain(day: str) -> Any:
        return pipeline.server.run("retrain", *pipeline.arguments(*state, *SETTINGS, "--span", day)[1:])

    write_day(data, "2024-02-28", 1, ["ant", "wasp"])
    first = retrain("2024-02-28")
    write_day(data, "2024-02-29", 1, ["ant", "wasp"])
    second = retrain("2024-02-29")
    again = retrain("2024-02-29")
    command = ("models", "rollback", "tabular", "--root", str(root), *state, "--reason", "labels were wrong")
    rolled_back = pipeline.server.run(*command)
    write_day(data, "2024-03-01", 1, ["ant", "wasp"])
    third = retrain("2024-03-01")

    assert [each.code for each in (first, second, again, rolled_back, third)] == [0] * 5, third.output
    assert first.output.splitlines()[-1] == "span 2024-02-28: pushed version 1, cold start: no earlier model"
    assert second.output.splitlines()[-1] == "span 2024-02-29: pushed version 2, warm start from the live model"
    assert again.output.splitlines()[-1] == "done: span 2024-02-29, version 2 is live"
    assert "statistics of new span 2024-02-29 alone" in second.output
    assert "1 of 2 spans analyzed, 1 kept from earlier runs" in second.output
    assert re.search(r"^newest span: accuracy \d\.\d{4} \(live \d\.\d{4}\) on", second.output, re.MULTILINE)
    assert "statistics of new spans 2024-02-29, 2024-03-01 alone" in third.output  # compared with the first day again
    assert third.output.splitlines()[-1] == "span 2024-03-01: pushed version 4, warm start from the live model"
    assert [(root / "serving" / str(version) / "saved_model.pb").is_file() for version in (1, 2, 3, 4)] == [True] * 4
