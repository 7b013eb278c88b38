"""The exported DAG on a real Airflow."""

import csv
import random
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from components.settings.tree import Settings
from pipelines.operate.ticks import TickLedger
from pipelines.orchestration import graph

pytestmark = [pytest.mark.all, pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

PENSTOCK = Path(sys.executable).with_name("penstock")
NODES = [node.id for node in graph.nodes(Settings()) if not node.resolves]
NEVER = "0 0 1 1 *"


def write_days(folder: Path) -> list[str]:
    """Writes the last two days that are over; size mostly decides the label."""
    today = datetime.now(timezone.utc).date()
    days = [(today - timedelta(days=back)).isoformat() for back in (2, 1)]
    for day in days:
        chosen = random.Random(day)
        (folder / day).mkdir(parents=True)
        with (folder / day / "a.csv").open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(["size", "label"])
            for number in range(150):
                rows.writerow([round(chosen.gauss(6 * (number % 2), 3), 3), ["ant", "wasp"][number % 2]])
    return days


def export(home: Path, name: str, data: Path, dags: Path, *settings: str) -> None:
    """Adds a schedule and writes its DAG, which tries failed tasks again after a second."""
    names = ["tabular", "--name", name, "--root", str(home / name)]
    chosen = ["train.epochs=1", "evaluate.min_accuracy=0", *settings]
    flags = [word for setting in chosen for word in ("--set", setting)]
    pattern = f"{data}/{{YYYY}}-{{MM}}-{{DD}}/*.csv"
    for words in (
        ["add", *names, "--data", pattern, "--cron", NEVER, *flags],
        ["export", "airflow", *names, "--out", str(dags)],
    ):
        subprocess.run([PENSTOCK, "schedule", *words], cwd=home, check=True, capture_output=True)
    (file,) = dags.glob(f"*{name}.py")
    text = file.read_text()
    assert '"retries": 2, "retry_delay": timedelta(minutes=5)' in text
    file.write_text(
        text.replace(
            '"retries": 2, "retry_delay": timedelta(minutes=5)', '"retries": 1, "retry_delay": timedelta(seconds=1)'
        )
    )


def test_the_scheduler_runs_the_dag(airflow: Any, tmp_path: Path) -> None:
    """A run that pushes is a success, a model that is not better is shown as skipped, and late data as failed."""
    days = write_days(tmp_path / "data")
    export(tmp_path, "good", tmp_path / "data", airflow.dags)
    export(tmp_path, "worse", tmp_path / "data", airflow.dags, "evaluate.min_accuracy=1")
    export(tmp_path, "late", tmp_path / "nothing", airflow.dags)
    airflow.command("db", "migrate")
    airflow.command("dags", "reserialize")
    airflow.start()

    good, worse, late = (airflow.run(f"penstock-{name}") for name in ("good", "worse", "late"))
    ledgers = {name: TickLedger(tmp_path / name / ".penstock" / "ticks" / name) for name in ("good", "worse", "late")}
    outcomes = {name: [each.outcome for each in ledger.of_span(days[-1])] for name, ledger in ledgers.items()}

    assert (good[0], good[1]) == ("success", dict.fromkeys(NODES, "success"))
    skipped = {"Evaluator": "skipped", "Pusher": "skipped"}
    assert (worse[0], worse[1]) == ("success", {**dict.fromkeys(NODES, "success"), **skipped})
    assert (late[0], late[1]) == ("failed", {**dict.fromkeys(NODES, "upstream_failed"), "Ingest": "failed"})
    assert (good[2]["Ingest"], worse[2]["Evaluator"], late[2]["Ingest"]) == (1, 1, 2)
    assert outcomes == {"good": ["pushed"], "worse": ["not better"], "late": ["late"]}
    assert (tmp_path / "good" / "serving" / "1").is_dir()
    assert not (tmp_path / "worse" / "serving" / "1").exists()
