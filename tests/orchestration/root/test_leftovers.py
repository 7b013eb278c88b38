"""B1: what killed and failed runs left is deleted; what others use or have published stays."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.storage import durable
from pipelines import config as run_config
from pipelines.orchestration import graph, plan
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.plan import NodePlan, Plan
from pipelines.orchestration.root import leftovers

PROJECT = Path(__file__).resolve().parents[3]
KILLED = """
import os, pathlib, signal, sys, tempfile
from pipelines.orchestration.root import leftovers

with leftovers.temporary_files(pathlib.Path(sys.argv[1])):
    tempfile.mkdtemp()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def write(file: Path) -> Path:
    """Writes a file and its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("content")
    return file


def test_leftovers_in_a_root(tmp_path: Path, open_metadata: Callable[..., Any]) -> None:
    """Outputs of unfinished executions, TFX's working folders and our temporary files; no output of anyone else."""
    root = tmp_path / "root"
    config = run_config.make("image", data=str(tmp_path), root=str(root))
    record = open_metadata(write(root / "new").with_name("metadata.db"))
    ids = {state: record("Trainer", state=state)[0] for state in ("COMPLETE", "FAILED", "CANCELED")}
    other = record("Trainer", pipeline="other", state="FAILED")[0]
    outputs = {state: root / "Trainer" / "model" / str(number) for state, number in ids.items()}
    kept = [
        root / "new",
        write(outputs["COMPLETE"] / "weights"),
        write(seals.path(config, outputs["COMPLETE"])),
        write(root / "Trainer" / "model" / str(other) / "weights"),
        write(root / "Trainer" / "model" / "99" / "weights"),  # not in the metadata
        write(root / "serving" / "2" / "model.pb"),
        write(durable.temporary_of(root / "out") / "shard"),  # of an ingest that may be at work
    ]
    for file in (
        outputs["FAILED"] / "weights",
        outputs["CANCELED"] / "weights",
        seals.path(config, outputs["FAILED"]),
        root / "Trainer" / ".system" / "executor_execution" / "9" / ".temp" / "part",
        durable.temporary_of(root / "report.html"),
        durable.temporary_of(config.notes / "holder.json"),
        durable.temporary_of(config.notes / "seals" / "1.json"),
    ):
        write(file)
    leftovers.collect(config, Store(config.metadata, "image"))

    found = {path for path in root.rglob("*") if path.is_file()}
    assert found == {*kept, config.metadata}


@pytest.mark.parametrize(
    ("keep", "action", "kept"),
    [
        ("false", plan.CACHED, (2, 4, 5)),
        ("false", plan.RUN, (0, 2, 4, 5)),
        ("true", plan.RUN, (0, 3, 4, 5)),
    ],
)
def test_checkpoints_that_a_training_can_continue_stay(
    tmp_path: Path, open_metadata: Callable[..., Any], keep: str, action: str, kept: tuple[int, ...]
) -> None:
    """B1: the three newest, and the one of this plan; that of a key whose last training succeeded only if set."""
    config = run_config.make("image", data=str(tmp_path), root=str(tmp_path), flags=[f"train.keep_checkpoints={keep}"])
    record = open_metadata(config.metadata)
    keys = [f"{number:<032d}" for number in range(6)]
    for age, key in enumerate(keys):
        file = write(config.checkpoints_of(key) / "checkpoint")
        os.utime(file.parent, (age, age))
    for key, states in {keys[3]: ["FAILED", "COMPLETE"], keys[4]: ["COMPLETE", "FAILED"]}.items():
        for state in states:
            record("Trainer", state=state, fingerprint={"key": key})
    planned = Plan((NodePlan(graph.find("Trainer"), action, "", {"key": keys[0]}),))
    leftovers.collect_checkpoints(config, Store(config.metadata, "image"), planned)

    assert sorted(config.checkpoints.iterdir()) == [config.checkpoints_of(keys[number]) for number in kept]


def test_outputs_of_an_earlier_database_stay(tmp_path: Path, open_metadata: Callable[..., Any]) -> None:
    """B1: a number of another node or of a live output is no leftover: numbers repeat in new metadata."""
    root = tmp_path / "root"
    config = run_config.make("image", data=str(tmp_path), root=str(root))
    model, linked = root / "Trainer" / "model", tmp_path / "elsewhere"
    record = open_metadata(write(root / "new").with_name("metadata.db"))
    failed = record("Schema", state="FAILED")[0]
    reused, unlinked = (str(record("Trainer", state="FAILED")[0]) for _ in range(2))
    record("Trainer", outputs={"model": model / reused})
    kept = [write(model / str(failed) / "weights"), write(model / reused / "weights"), write(linked / "weights")]
    (model / unlinked).symlink_to(linked)
    (root / "Trainer" / "moved").symlink_to(tmp_path / "disk")
    kept.append(write(tmp_path / "disk" / unlinked / "weights"))
    leftovers.collect(config, Store(config.metadata, "image"))

    assert set(tmp_path.rglob("weights")) == set(kept)
    assert not (model / unlinked).is_symlink()


def test_temporary_files_of_a_live_run_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B1: another owner of the same path, on another host or another command, deletes nothing that is in use."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with leftovers.temporary_files(Path("a")):
        inside = Path(tempfile.mkdtemp())
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with leftovers.temporary_files(Path("a")):
            assert inside.exists()

    assert list(tmp_path.iterdir()) == []


def test_temporary_files_of_a_killed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run on the same root deletes them; those of another root stay."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for owner in ("a", "b"):
        killed = subprocess.run([sys.executable, "-c", KILLED, owner], cwd=PROJECT, check=False)
        assert killed.returncode == -signal.SIGKILL
    left = {path.name for path in tmp_path.iterdir()}
    with leftovers.temporary_files(Path("a")):
        inside = Path(tempfile.mkdtemp())
        assert inside.parent.parent == tmp_path
    after = {path.name for path in tmp_path.iterdir()}

    assert (len(left), len(after), after < left) == (2, 1, True)
    assert tempfile.gettempdir() == str(tmp_path)
