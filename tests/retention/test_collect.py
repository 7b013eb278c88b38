"""B14: the disk of a pipeline that runs every night stays bounded, and what its models need stays."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.errors import BadInput, Locked
from components.serving import versions
from components.storage import durable
from components.storage.hashing import HashCache
from pipelines import cli
from pipelines import config as run_config
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.operate import models
from pipelines.operate.models import Wish
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.root import lock
from pipelines.retention import collect
from pipelines.retention.collect import Deletion
from pipelines.retention.garbage import SUPERSEDED, Garbage

PROJECT = Path(__file__).resolve().parents[2]
FLAGS = ("gc.keep_runs=2", "gc.keep_versions=2")
# Marks artifacts as deleted, and is killed before it deletes a file.
KILLED = """
import os, signal, sys
from pipelines import config
from pipelines.orchestration.metadata.store import Store
from pipelines.retention import collect
mark = Store.mark_deleted
Store.mark_deleted = lambda *ids: (mark(*ids), os.kill(os.getpid(), signal.SIGKILL))
collect.collect(config.make("image", data=".", root=sys.argv[1], flags=["gc.keep_runs=2", "gc.keep_versions=2"]))
"""


def used(root: Path) -> int:
    """Returns what `du` says a folder takes."""
    return int(subprocess.run(["du", "-s", "-B1", root], capture_output=True, check=True).stdout.split()[0])


def stored(root: Any) -> int:
    """Returns the bytes of all objects of a root on a store."""
    return sum(each.st_size for _, each in root.config.root.entries())


def folders(root: Any, node: str) -> list[int]:
    """Returns the numbers of a node's outputs."""
    return sorted(int(path.name) for path in (root.config.root / node).glob("*/*") if path.name.isdecimal())


def test_twelve_nights_take_the_space_of_four(make_nightly: Callable[..., Any]) -> None:
    """B14: the disk is bounded, everything that is live in the metadata is intact, and a rollback still works."""
    root, sizes = make_nightly(None, *FLAGS), []
    for _ in range(12):
        root.night()
        collect.collect(root.config)
        sizes.append(used(root.config.root / "Ingest") + used(root.config.root / "Trainer"))
    store, cache = Store(root.config.metadata, "image"), HashCache(None)
    live = [each for step in store.executions("Trainer") for each in store.outputs(step.id) if each.live]

    assert max(sizes[4:]) <= sizes[3] + (8 << 10)  # entries of folders
    assert [seals.broken(root.config, each.uri, cache) for each in live] == [None] * 2
    assert versions.complete(root.config.serving) == [11, 12]
    assert models.rollback(root.config, None, Wish("worse")).version == 13


def test_the_bytes_that_are_freed(make_nightly: Callable[..., Any]) -> None:
    """B14: what hard links share is freed with the last of them, and kept once; `du` says the same."""
    root = make_nightly(None, *FLAGS)
    for _ in range(6):
        root.night()
    before = used(root.config.root)
    planned = collect.collect(root.config, dry_run=True)
    unchanged = used(root.config.root)
    done = collect.collect(root.config)
    freed = before - used(root.config.root)

    assert (unchanged, planned.garbage, planned.freed) == (before, done.garbage, done.freed)
    assert freed == pytest.approx(done.freed, abs=64 << 10)  # seals, and the journal of the metadata
    assert done.kept == pytest.approx(used(root.config.root), abs=64 << 10)


def test_what_is_deleted_and_what_stays() -> None:
    """The kinds are those of what is deleted."""
    done = Deletion((Garbage(SUPERSEDED, Path("a")), Garbage(SUPERSEDED, Path("b"))), 200_000, 11_800_000)

    assert done.text(dry_run=True) == "would delete 2 x superseded artifact (0.2 MB); 11.8 MB stay"
    assert done.text(dry_run=False) == "deleted 2 x superseded artifact (0.2 MB); 11.8 MB stay"
    assert Deletion((), 0, 11_800_000).text(dry_run=True) == "nothing to delete; 11.8 MB stay"


def test_a_collection_that_is_killed(make_nightly: Callable[..., Any]) -> None:
    """B14: it left files of artifacts that are deleted in the metadata; the next one deletes them."""
    root = make_nightly(None, *FLAGS)
    for _ in range(5):
        root.night()
    script = [sys.executable, "-c", KILLED, str(root.config.root)]
    killed = subprocess.run(script, cwd=PROJECT, check=False, capture_output=True)
    left = folders(root, "Trainer")
    done = collect.collect(root.config)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (len(left), len(folders(root, "Trainer"))) == (5, 2)
    assert {each.kind for each in done.garbage} >= {"leftover of a run"}
    assert "superseded artifact" not in {each.kind for each in done.garbage}


def test_what_is_no_artifact(make_nightly: Callable[..., Any]) -> None:
    """B14: outputs of failed runs, orphans, unfinished files, working folders, old logs; nothing of anyone else."""
    root = make_nightly(None, *FLAGS, "gc.keep_logs=1")
    for outcome in ("pushed", "failed", "pushed"):
        root.night(outcome)
    home, config = root.config.root, root.config
    _, other = root.record("Trainer", pipeline="other", outputs={"model": home / "Trainer" / "model" / "900"})
    garbage = [
        home / "Trainer" / "model" / "901",
        home / "Trainer" / ".system",
        durable.temporary_of(config.notes / "holder.json"),
        config.logs / "1.log",
    ]
    kept = [home / "Trainer" / "model" / "900", home / "mine", home / "Trainer" / "notes", config.logs / "2.log"]
    for age, path in enumerate([*garbage, *kept]):
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".log":
            path.write_text("log")
            os.utime(path, (age, age))
        else:
            path.mkdir()
    failed = folders(root, "Ingest")[1]
    done = collect.collect(root.config)

    assert {each.place for each in done.garbage} == {*garbage, home / "Ingest" / "examples" / str(failed)}
    assert [path.exists() for path in (*garbage, *kept)] == [False] * 4 + [True] * 4
    assert other["model"] in {each.id for each in Store(config.metadata, "other").artifacts(other.values(), "model")}


def test_not_during_a_run(make_nightly: Callable[..., Any]) -> None:
    """B14: the lock of the root is that of runs; a tick leaves the collection to the next one."""
    root = make_nightly(None, *FLAGS)
    said: list[str] = []
    root.night()
    with lock.hold(root.config.notes):
        with pytest.raises(Locked, match="is in use: by pid"):
            collect.collect(root.config)
        assert collect.after_tick(root.config, said.append) is None

    assert re.match("nothing was collected: .* is in use", said[0])


def test_other_metadata(make_nightly: Callable[..., Any], tmp_path: Path) -> None:
    """B14: if the metadata does not know the live model, nothing is taken for garbage."""
    root = make_nightly(None, *FLAGS)
    root.night()
    root.config.metadata.rename(tmp_path / "lost.db")
    before = sorted(root.config.root.rglob("*"))
    with pytest.raises(BadInput, match=r"does not know the live model; expected .* Nothing was deleted"):
        collect.collect(root.config)

    assert set(before) <= set(root.config.root.rglob("*"))


def test_the_metadata_of_another_root(
    make_nightly: Callable[..., Any], open_metadata: Callable[[Path], Any], tmp_path: Path
) -> None:
    """B14: that it has an artifact with the number of the live model is not enough."""
    root = make_nightly(None, *FLAGS)
    root.night()
    root.config.metadata.rename(tmp_path / "lost.db")
    record = open_metadata(root.config.metadata)
    for number in range(root.pointer.live.model.artifact + 1):
        record("StatisticsGen", outputs={"statistics": root.config.root / "StatisticsGen" / "statistics" / str(number)})
    with pytest.raises(BadInput, match="does not know the live model"):
        collect.collect(root.config)


def test_a_root_that_was_copied(make_nightly: Callable[..., Any], tmp_path: Path) -> None:
    """B14: its live.json names the versions of the other root, which stay."""
    root = make_nightly(None, *FLAGS)
    for _ in range(5):
        root.night()
    shutil.copytree(root.config.root, tmp_path / "copy")
    before = versions.complete(root.config.serving)
    collect.collect(run_config.make("image", data=".", root=str(tmp_path / "copy"), flags=FLAGS))

    assert versions.complete(root.config.serving) == before == [1, 2, 3, 4, 5]


def test_a_copy_without_a_task(make_nightly: Callable[..., Any], tmp_path: Path) -> None:
    """B14: it is collected itself, and not the root that its journal names; nor versions that both name."""
    root = make_nightly(None, *FLAGS, f"push.directory={tmp_path / 'models'}")
    for _ in range(5):
        root.night()
    with calls.opened(root.config, Origin("R")) as call:
        call.end(0, "")
    shutil.copytree(root.config.root, tmp_path / "copies" / "copy")
    done = CliRunner().invoke(cli.app, ["gc", "--root", str(tmp_path / "copies")])
    copy = replace(root, config=replace(root.config, root=tmp_path / "copies" / "copy"))

    assert (done.exit_code, len(folders(root, "Trainer")), len(folders(copy, "Trainer"))) == (0, 5, 2), done.output
    assert versions.complete(tmp_path / "models") == [1, 2, 3, 4, 5]


def test_versions_in_a_folder_that_the_command_named_relatively(
    make_nightly: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collected from any folder, the versions are those that the run pushed."""
    root = make_nightly(None, *FLAGS, "push.directory=models")
    for _ in range(5):
        root.night()
    with calls.opened(root.config, Origin("R")) as call:
        call.end(0, "")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = CliRunner().invoke(cli.app, ["gc", "--root", str(tmp_path)])

    assert (done.exit_code, versions.complete(tmp_path / "models")) == (0, [4, 5]), done.output


def test_all_pipelines_of_a_folder(
    make_nightly: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in one root keeps no other from being collected; each has its own metadata, not that of the environment."""
    monkeypatch.setenv("PENSTOCK_METADATA", "mysql://user@127.0.0.1:1/elsewhere")
    root = make_nightly(None, *FLAGS)
    root = replace(root, config=replace(root.config, server=None))
    for _ in range(5):
        root.night()
    busy = replace(root.config, root=tmp_path / "busy", state=tmp_path / "busy")
    for each in (busy, root.config):
        with calls.opened(each, Origin("R")) as call:
            call.end(0, "")
    with lock.hold(busy.notes):
        done = CliRunner().invoke(cli.app, ["gc", "--root", str(tmp_path)])

    assert (done.exit_code, len(folders(root, "Trainer"))) == (75, 2)
    assert "image in " in done.output
    assert "busy is in use: by pid" in done.output


def test_a_pipeline_with_a_webhook(make_nightly: Callable[..., Any], tmp_path: Path) -> None:
    """The journal has no address of it, and `penstock gc` without a task needs none."""
    root = make_nightly(None, *FLAGS, "notify.webhook=https://host/T0K3N")
    for _ in range(5):
        root.night()
    with calls.opened(root.config, Origin("R")) as call:
        call.end(0, "")
    done = CliRunner().invoke(cli.app, ["gc", "--root", str(tmp_path)])

    assert (done.exit_code, len(folders(root, "Trainer"))) == (0, 2), done.output


def test_a_schedule_may_leave_it_to_people(make_nightly: Callable[..., Any]) -> None:
    """With gc.after_tick=false nothing is deleted after a tick, else what is not needed."""
    root = make_nightly(None, *FLAGS, "gc.after_tick=false")
    for _ in range(5):
        root.night()
    said: list[str] = []

    assert (collect.after_tick(root.config, said.append), said, len(folders(root, "Trainer"))) == (None, [], 5)


def test_every_kept_version_can_be_live_again(make_nightly: Callable[..., Any]) -> None:
    """B14: candidates are compared with its model after a rollback, and new spans with the data of that model."""
    root = make_nightly(None, "gc.keep_runs=1", "gc.keep_versions=3")
    for outcome in ("pushed", "pushed", "pushed", "pushed", "not better", "not better"):
        root.night(outcome)
    collect.collect(root.config)
    kept = versions.complete(root.config.serving)
    live = models.rollback(root.config, 2, Wish("worse")).model
    collect.collect(root.config)
    store = Store(root.config.metadata, "image")
    made = store.made_from(live.artifact)

    assert (kept, store.base_model([live]) is not None) == ([2, 3, 4], True)
    assert {name for name, each in made.items() if each.live} == {"examples", "transform_graph", "statistics"}


def test_on_an_object_store(make_nightly: Callable[..., Any], s3_bucket: str) -> None:
    """B14: objects, seals and versions go; the live and the previous model stay."""
    root = make_nightly(f"{s3_bucket}/root", *FLAGS)
    for outcome in ("pushed", "pushed", "failed", "pushed", "pushed", "pushed"):
        root.night(outcome)
    before = stored(root) + used(root.config.state)
    done = collect.collect(root.config)
    after = stored(root) + used(root.config.state)

    assert len(list((root.config.root / "Trainer" / "model").iterdir())) == 2
    assert versions.complete(root.config.serving) == [4, 5]
    assert before - after == pytest.approx(done.freed, abs=64 << 10)  # seals and claims
    assert collect.collect(root.config).garbage == ()
    assert models.rollback(root.config, None, Wish("worse")).version == 6
