"""`penstock ingest` as a user runs it: rows and images in, a folder of shards out, or a clear refusal."""

import csv
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import psutil
import pytest
import tensorflow as tf

pytestmark = [pytest.mark.e2e]


def ingest(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own."""
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "ingest", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def records(folder: Path) -> list[dict[str, Any]]:
    """Reads every record back with nothing but TensorFlow; the id, which names its content, is left out."""
    found = []
    for path in sorted(folder.rglob("data_tfrecord-*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append({key: getattr(f, f.WhichOneof("kind")).value[0] for key, f in features.items() if key != "id"})
    return found


def test_a_table_of_another_program_becomes_shards(tmp_path: Path) -> None:
    """What pandas wrote comes back whole, and the summary says where it is."""
    table = pd.DataFrame({"n": range(500), "half": [n / 2 for n in range(500)], "kind": ["a", "ü,b"] * 250})
    table.to_csv(tmp_path / "t.csv", index=False)
    done = ingest(str(tmp_path / "t.csv"), "--out", str(tmp_path / "out"), "--label", "kind")
    found = sorted(records(tmp_path / "out"), key=lambda record: record["n"])

    assert done.returncode == 0, done.stderr
    assert "500 of 500" in done.stdout
    assert found == [{"n": n, "half": n / 2, "kind": ("a", "ü,b")[n % 2].encode()} for n in range(500)]
    assert done.stderr == ""


def test_images_become_shards_by_themselves(digits: Path, tmp_path: Path) -> None:
    """A folder of class folders needs no task and no chain."""
    done = ingest(str(digits), "--out", str(tmp_path / "out"))

    assert done.returncode == 0, done.stderr
    assert "1,797 of 1,797" in done.stdout


def test_a_folder_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """Nothing is read for it."""
    (tmp_path / "out").mkdir()
    done = ingest(str(tmp_path / "none.csv"), "--out", str(tmp_path / "out"))

    assert done.returncode == 2
    assert done.stderr == f"penstock: --out {tmp_path}/out: is there already; choose another, or remove it\n"


def test_bad_rows_beyond_the_budget_leave_no_folder(tmp_path: Path) -> None:
    """A12: exit 4 with file and line; the list of bad rows is kept beside where the folder would be."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n4,5,6\n7,8\n")
    done = ingest(str(tmp_path / "t.csv"), "--out", str(tmp_path / "out"))

    assert done.returncode == 4
    assert "t.csv: line 3: " in done.stderr
    assert "t.csv: line 4: " in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".penstock", "out.log", "out.quarantine.jsonl", "t.csv",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_killed_worker_ends_the_ingest(tmp_path: Path) -> None:
    """B11: Beam would wait for its answer for ever; here the command ends, and leaves no folder behind."""
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["n", "word"], *([n, f"word {n} " * 20] for n in range(300_000))])
    flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "ingest", str(tmp_path / "t.csv")]
    run = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out"), "--", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    killed = kill_a_busy_worker(run, tmp_path)
    _, said = run.communicate(timeout=300)

    assert killed
    assert (run.returncode, said.partition(",")[0]) == (1, "penstock: a Beam worker process died")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".penstock", "out.log", "t.csv"]


def kill_a_busy_worker(run: subprocess.Popen[str], home: Path) -> bool:
    """Kills one of Beam's worker processes when shards are being written."""
    end = time.monotonic() + 120
    while run.poll() is None and time.monotonic() < end:
        if any(home.glob(".aside-*/Split-*/*")):
            for child in psutil.Process(run.pid).children(recursive=True):
                if "sdk_worker_main" in " ".join(child.cmdline()) and "python" in child.name():
                    child.kill()
                    return True
    return False
