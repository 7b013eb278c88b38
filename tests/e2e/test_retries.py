"""B10: nodes that fail for a while are tried again, in real runs; what takes the fault away is the injected wait."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Mounted = Callable[..., Any]
# The wait before a try takes no time. It is written down, and what fills the disk is deleted at the given waits.
FREE = """
import pathlib
from pipelines.orchestration import retries
waits, frees = pathlib.Path(WAITS), FREES
def wait(seconds):
    with waits.open("a") as file:
        print(seconds, file=file)
    filler = frees.get(len(waits.read_text().splitlines()))
    if filler:
        pathlib.Path(filler).unlink()
retries.sleep = wait
"""
# Fills a disk when the Trainer begins to write its model, after its checkpoints, and one when the Pusher has pushed.
FULL = """
from components.serving import export, publish
export_all, push = export.export, publish.publish
def fill(name):
    with open(name, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
def fill_and_export(*arguments):
    export.export = export_all
    fill(TRAINER)
    return export_all(*arguments)
def push_and_fill(*arguments):
    move = push(*arguments)
    fill(PUSHER)
    return move
export.export, publish.publish = fill_and_export, push_and_fill
"""
# The first upload of a node waits until the server has been stopped, and the wait before the next try until it is back.
AWAY = """
import pathlib, time
from components.storage import object_stores
from pipelines.orchestration import retries
from pipelines.orchestration.remote import staging
object_stores.PATIENCE, folder, upload = 0.2, pathlib.Path(FOLDER), staging.upload
def until(asked, done):
    (folder / asked).touch()
    while not (folder / done).exists():
        time.sleep(0.01)
def upload_to_none(*arguments):
    staging.upload = upload
    until("stop", "stopped")
    return upload(*arguments)
staging.upload = upload_to_none
retries.sleep = lambda seconds: until("start", "started")
"""


def fill(folder: Path) -> str:
    """Fills a small disk, and returns the file that does."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return str(filler)


def test_disks_that_are_full_for_a_while(
    rows: Path, tmp_path: Path, make_pipeline: Any, mounted: Mounted, quick_table: tuple[str, ...]
) -> None:
    """B10: each try has folders of its own, the Trainer goes on from its checkpoint, and everything says what happened.

    Ingest fails twice, the Trainer once, when it writes its model, and the Pusher once, after it has pushed: its next
    try pushes no second version.
    """
    pipeline, waits = make_pipeline(rows, tmp_path / "root", task="tabular"), tmp_path / "waits"
    with (
        mounted(pipeline.root / "Ingest", "8m") as first,
        mounted(pipeline.root / "Trainer", "8m") as second,
        mounted(pipeline.root / "Pusher", "1m") as third,
    ):
        fillers = str(second / "filler"), str(third / "filler")
        frees = {2: fill(first), 3: fillers[0], 4: fillers[1]}
        before = FREE.replace("WAITS", repr(str(waits))).replace("FREES", repr(frees))
        before += FULL.replace("TRAINER", repr(fillers[0])).replace("PUSHER", repr(fillers[1]))
        result = pipeline.run(*quick_table, "--set", "train.epochs=2", before=before)
        assert result.code == 0, result.output
        ingest, trainer = (list(pipeline.store().executions(node)) for node in ("Ingest", "Trainer"))
        left = {path.name for path in (first / "examples").iterdir()}
        history = orjson.loads((second / "model_run" / str(trainer[0].id) / "history.json").read_bytes())
        again = pipeline.run(*quick_table, "--set", "train.epochs=2")
        run = re.search(r"^run (\S+)", result.output, re.MULTILINE)
        shown = pipeline.server.run("runs", "show", run[1] if run else "", "--root", str(pipeline.root))

    assert waits.read_text().split() == ["10.0", "20.0", "10.0", "10.0"]
    assert [each.name for each in (pipeline.root / "serving").iterdir() if each.name.isdecimal()] == ["1"]
    assert [each.state for each in ingest] == ["COMPLETE", "FAILED", "FAILED"]
    assert [each.state for each in trainer] == ["COMPLETE", "FAILED"]
    assert left == {str(ingest[0].id)}
    assert [each["note"].partition(" at ")[0] for each in history["resumed"]] == ["resumed"]
    warned = re.findall(r"^warning: (\w+): try (\d) of 3 failed \(disk full\): /", result.output, re.MULTILINE)
    assert warned == [("Ingest", "1"), ("Ingest", "2"), ("Trainer", "1"), ("Pusher", "1")]
    assert re.search(r"Ingest .* 3 tries: disk full, disk full", result.output)
    assert len(re.findall(r"^  failed try +Ingest: disk full: ", result.output, re.MULTILINE)) == 2
    assert "3 tries: disk full, disk full" in next((pipeline.root / "logs").glob("*.html")).read_text()
    events = [orjson.loads(line) for line in next((pipeline.root / "logs").glob("*.jsonl")).read_bytes().splitlines()]
    tried = [(each["node"], each["number"], each["wait"]) for each in events if each["event"] == "try failed"]
    assert tried == [("Ingest", 1, 10.0), ("Ingest", 2, 20.0), ("Trainer", 1, 10.0), ("Pusher", 1, 10.0)]
    assert again.code == 0
    assert "nothing to do" in again.output
    assert re.findall(r"^(\w+): try (\d) failed: disk full: /", shown.output, re.MULTILINE) == warned


def test_a_store_that_is_away_for_a_while(
    rows: Path, tmp_path: Path, make_pipeline: Any, s3_server: Any, wait_for: Any, quick_table: tuple[str, ...]
) -> None:
    """B10: with a root on an object store, the second try of Ingest uploads all of its files to a new folder."""
    root = f"{s3_server.new_bucket()}/root"
    pipeline = make_pipeline(rows, root, task="tabular", environment=s3_server.environment)
    state = ("--state", str(tmp_path / "state"))
    process = pipeline.start(*quick_table, *state, "--to", "Ingest", before=AWAY.replace("FOLDER", repr(str(tmp_path))))
    for asked, act, done in (("stop", s3_server.stop, "stopped"), ("start", s3_server.start, "started")):
        wait_for((tmp_path / asked).exists, process)
        act()
        (tmp_path / done).touch()
    result = process.wait()

    assert result.code == 0, result.output
    assert re.search(r"^warning: Ingest: try 1 of 3 failed \(no connection\)", result.output, re.MULTILINE)
    folders = {path.parts[-2] for path in (s3_server.folder / root.removeprefix("s3://")).glob("Ingest/examples/*/*")}
    assert len(folders) == 1


def test_a_disk_that_stays_full(
    rows: Path, tmp_path: Path, make_pipeline: Any, mounted: Mounted, quick_table: tuple[str, ...]
) -> None:
    """B10: the run ends with the exit code of the last try; all tries are failed, and leave no output."""
    pipeline, waits = make_pipeline(rows, tmp_path / "root", task="tabular"), tmp_path / "waits"
    with mounted(pipeline.root / "Ingest", "8m") as disk:
        fill(disk)
        before = FREE.replace("WAITS", repr(str(waits))).replace("FREES", "{}")
        result = pipeline.run(*quick_table, "--to", "Ingest", "--set", "retry.attempts=2", before=before)
        left = sorted(path.name for path in disk.rglob("*") if path.is_file())

    assert result.code == 7, result.output
    assert waits.read_text().split() == ["10.0"]
    assert [each.state for each in pipeline.store().executions("Ingest")] == ["FAILED", "FAILED"]
    assert left == ["filler"]


def test_bad_input_is_not_tried_again(tmp_path: Path, make_pipeline: Any, quick_table: tuple[str, ...]) -> None:
    """B10: too many bad rows end the run with exit code 4 after one try."""
    data, waits = tmp_path / "rows.csv", tmp_path / "waits"
    data.write_text("\n".join(["width,kind", *(f"{row},{'xy'[row % 2]}" for row in range(50)), *["1,2,3"] * 50, ""]))
    pipeline = make_pipeline(data, tmp_path / "root", task="tabular")
    before = FREE.replace("WAITS", repr(str(waits))).replace("FREES", "{}")
    result = pipeline.run(*quick_table, "--to", "Ingest", before=before)

    assert result.code == 4, result.output
    assert not waits.exists()
    assert [each.state for each in pipeline.store().executions("Ingest")] == ["FAILED"]
