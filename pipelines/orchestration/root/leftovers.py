"""Deletes what killed and failed runs left behind. Call it only under the lock of the root or of `--out`.

| left behind                              | recognised by                                                  |
|------------------------------------------|----------------------------------------------------------------|
| `.aside-…`                               | the name of its target (`components/storage/durable.py`)       |
| outputs of an execution, and their seals | node and number: failed or cancelled in the metadata           |
| TFX's working folders, `<node>/.system`  | their place: no later run uses them                            |
| checkpoints of finished trainings        | cache key, by the metadata; of others three stay, and the one  |
|                                          | that the present plan continues                                |
| temporary files                          | a folder in TMPDIR with a digest of the root, not locked       |

After the metadata was deleted or restored, numbers repeat: a number alone does not identify the output.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from components.serving import live
from components.storage import durable
from components.storage.hashing import digest_of
from pipelines.config import RunConfig
from pipelines.orchestration import graph, schema
from pipelines.orchestration.metadata import seals
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.plan import Plan
from pipelines.orchestration.remote import object_leftovers

_CHECKPOINTS = 3  # cache keys
_LOCK = ".lock"  # in a folder of temporary files


def collect(config: RunConfig, store: Store) -> None:
    """Deletes the leftovers in a pipeline root, but for checkpoints."""
    # In the root by name: an ingest with --out in this folder may be running.
    known = (config.report, config.quarantine_list, schema.own(config))
    durable.sweep(config.state, live.FILE, *(file.name for file in known))
    for folder in (config.notes, config.notes / "seals"):
        durable.sweep(folder)
    if config.store is not None:
        object_leftovers.collect(config, config.store, store)
        return
    for node in graph.nodes(config.settings):
        home = config.state / node.id
        durable.remove(home / ".system")
        for number in store.unfinished(node.id):
            for output in home.glob(f"*/{number}"):
                if not (home.is_symlink() or output.parent.is_symlink() or store.is_live(output)):
                    durable.remove(output)
                    seals.path(config, output).unlink(missing_ok=True)


def collect_checkpoints(config: RunConfig, store: Store, planned: Plan) -> None:
    """Deletes all checkpoints but the newest, and the one that this plan continues."""
    present = [config.checkpoints_of(each.fingerprint["key"]) for each in planned.due if each.node.id == "Trainer"]
    for folder in old_checkpoints(config, store, present):
        durable.remove(folder)


def old_checkpoints(config: RunConfig, store: Store, present: Collection[Path] = ()) -> list[Path]:
    """Returns the checkpoints that no run needs to continue, but those that are present in the plan.

    One of a finished training is a leftover of a kill unless `train.keep_checkpoints` is set.
    """
    folders = sorted(config.checkpoints.glob("*"), key=lambda folder: folder.lstat().st_mtime)
    states: dict[Path, str] = {}
    for execution in store.executions("Trainer") if folders else ():
        states.setdefault(config.checkpoints_of(execution.fingerprint.get("key", "")), execution.state)
    finished = () if config.settings.train.keep_checkpoints else ("COMPLETE", "CACHED")
    newest = [folder for folder in folders if states.get(folder) not in finished][-_CHECKPOINTS:]
    return [folder for folder in folders if folder not in (*newest, *present)]


@contextmanager
def temporary_files(owner: Path) -> Iterator[None]:
    """Puts temporary files of this process and its children into one folder, and deletes those of killed owners."""
    prefix = f"penstock-{digest_of([str(owner)])[:12]}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if not left.is_symlink() and left.lstat().st_uid == os.geteuid():
            _sweep(left)
    old = tempfile.tempdir, os.environ.get("TMPDIR")
    with (
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder,
        (Path(folder) / ".new").open("wb") as lock,
    ):
        with suppress(OSError):  # a file system without locks; there, nothing is swept either
            fcntl.flock(lock, fcntl.LOCK_EX)
        Path(lock.name).rename(Path(folder) / _LOCK)  # only now: before, another owner could take the lock
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            tempfile.tempdir = old[0]
            os.environ.pop("TMPDIR")
            if old[1] is not None:
                os.environ["TMPDIR"] = old[1]


def _sweep(folder: Path) -> None:
    """Deletes a folder of temporary files unless its owner, on this host or another one, still holds its lock."""
    with suppress(OSError), (folder / _LOCK).open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
