"""`penstock ingest` as a user runs it: raw data in, a folder of shards out, or an error message."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
import tensorflow as tf

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PENSTOCK = str(Path(sys.executable).with_name("penstock"))


def records(folder: Path) -> list[dict[str, Any]]:
    """Reads all records with plain TensorFlow and leaves out the id, which is a digest of the content."""
    found = []
    for path in sorted(folder.rglob("data_tfrecord-*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append({key: getattr(f, f.WhichOneof("kind")).value[0] for key, f in features.items() if key != "id"})
    return found


def test_csv_file_becomes_shards(tmp_path: Path) -> None:
    """The installed command reads every value that pandas wrote and prints nothing but its summary."""
    table = pd.DataFrame({"n": range(500), "half": [n / 2 for n in range(500)], "kind": ["a", "ü,b"] * 250})
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["ingest", str(tmp_path / "t.csv"), "--out", str(tmp_path / "out"), "--label", "kind"]
    done = subprocess.run([PENSTOCK, *arguments], capture_output=True, text=True, check=False)
    found = sorted(records(tmp_path / "out"), key=lambda record: record["n"])

    assert (done.returncode, done.stderr) == (0, "")
    assert "500 of 500" in done.stdout
    assert found == [{"n": n, "half": n / 2, "kind": ("a", "ü,b")[n % 2].encode()} for n in range(500)]


@pytest.mark.all
def test_hash_seed_changes_no_byte(tmp_path: Path) -> None:
    """D2: two Python processes that iterate over sets in different orders write the same files."""
    rows = [{"text": f"text {n}", "kind": "ab"[n % 2], f"c{n % 7}": n} for n in range(500)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        arguments = ["ingest", str(tmp_path / "t.jsonl"), "--out", str(out), "--label", "kind"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([PENSTOCK, *arguments], env=environment, capture_output=True, check=True)
        found.append({str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()})

    assert found[0] == found[1]


def test_class_folders_of_images_become_shards(fork_server: Any, digits: Path, tmp_path: Path) -> None:
    """The command needs no task."""
    result = fork_server.run("ingest", str(digits), "--out", str(tmp_path / "out"))

    assert result.code == 0, result.output
    assert "1,797 of 1,797" in result.output
    assert names(tmp_path) == [".penstock", "out", "out.log"]


def test_existing_folder_is_not_overwritten(fork_server: Any, tmp_path: Path) -> None:
    """The command ends before it reads any data."""
    (tmp_path / "out").mkdir()
    result = fork_server.run("ingest", str(tmp_path / "none.csv"), "--out", str(tmp_path / "out"))

    assert result.code == 2
    assert (
        result.output == f"penstock: --out {tmp_path}/out: exists already; choose another folder, or remove this one\n"
    )


def test_too_many_bad_rows_leave_no_folder(fork_server: Any, tmp_path: Path) -> None:
    """A12: exit code 4 with file and line; the quarantine list is kept beside the missing folder until the next try."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n4,5,6\n7,8\n")
    result = fork_server.run("ingest", str(tmp_path / "t.csv"), "--out", str(tmp_path / "out"))

    assert result.code == 4
    assert "t.csv: line 3: " in result.output
    assert "t.csv: line 4: " in result.output
    assert names(tmp_path) == [".penstock", "out.log", "out.quarantine.jsonl", "t.csv"]
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3\n")
    unknown = fork_server.run("ingest", str(tmp_path / "t.csv"), "--out", str(tmp_path / "out"), "--label", "c")
    assert unknown.code == 2, unknown.output
    assert names(tmp_path) == [".penstock", "out.log", "t.csv"]


# Python runs this file when it starts. Each Beam worker writes one work unit and then waits to be killed.
# In the command: Beam's workers run ONE_UNIT first.
INJECT = """
from components import helper_process
command = helper_process.command
helper_process.command = lambda program, *arguments: command({one_unit!r} + program, *arguments)
"""
# In each Beam worker: it writes one work unit, then waits until one of them was killed.
ONE_UNIT = """
import os, pathlib, time
from components.ingest import units
write = units.write
def write_and_wait(unit, output):
    written = write(unit, output)
    pathlib.Path({folder!r}, str(os.getpid())).touch()
    while not pathlib.Path({folder!r}, "killed").exists():
        time.sleep(0.05)
    return written
units.write = write_and_wait
"""


def test_killed_beam_worker_ends_the_command(fork_server: Any, wait_for: Any, tmp_path: Path) -> None:
    """B11: Beam itself would wait for the worker's answer forever; the command ends and leaves no folder."""
    home, at_work = tmp_path / "home", tmp_path / "at work"
    home.mkdir()
    at_work.mkdir()
    with (home / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["n", "word"], *([n, f"word {n} " * 20] for n in range(5_000))])
    arguments = ["ingest", str(home / "t.csv"), "--out", str(home / "out")]
    flags = ["--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    before = INJECT.format(one_unit=ONE_UNIT.format(folder=str(at_work)))
    process = fork_server.start_command(*arguments, *flags, before=before)
    wait_for(lambda: names(at_work), process)
    written = list(home.glob(".aside-*/Split-*/*"))
    os.kill(int(names(at_work)[0]), signal.SIGKILL)
    (at_work / "killed").touch()
    result = process.wait()

    assert written
    assert result.code == 1, result.output
    assert "penstock: a Beam worker process died" in result.output
    assert names(home) == [".penstock", "out.log", "t.csv"]


def names(folder: Path) -> list[str]:
    """Returns the names in a folder."""
    return sorted(path.name for path in folder.iterdir())
