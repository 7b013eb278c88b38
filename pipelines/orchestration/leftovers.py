"""Deletes what killed and failed runs left behind. Call it only under the lock of the root or of `--out`.

| left behind                              | recognised by                                                  |
|------------------------------------------|----------------------------------------------------------------|
| `.aside-…`                               | the name that it was to get (`components/storage/durable.py`)  |
| outputs of an execution, and their seals | the execution's number: failed or cancelled in the metadata    |
| TFX's working folders, `<node>/.system`  | their place: no later run uses them                            |
| temporary files                          | a folder in TMPDIR whose name contains a digest of the root    |
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.storage import durable
from components.storage.hashing import digest_of
from pipelines.config import RunConfig
from pipelines.orchestration import graph, plan, schema
from pipelines.orchestration.store import Store


def collect(config: RunConfig, store: Store) -> None:
    """Deletes the leftovers in a pipeline root."""
    # In the root by name: an ingest with --out in this folder may be at work.
    durable.sweep(config.root, *(file.name for file in (config.report, config.quarantine_list, schema.own(config))))
    for folder in (config.notes, config.notes / "seals"):
        durable.sweep(folder)
    unfinished = store.unfinished()
    for node in graph.nodes(config.settings.extract):
        shutil.rmtree(config.root / node.id / ".system", ignore_errors=True)
        for output in (config.root / node.id).glob("*/*"):
            if output.name in unfinished:
                shutil.rmtree(output)
                plan.seal_path(config, output).unlink(missing_ok=True)


@contextmanager
def temporary_files(owner: Path) -> Iterator[None]:
    """Puts temporary files of this process and its children into one folder, and deletes that of a killed owner."""
    prefix = f"penstock-{digest_of([str(owner)])[:12]}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if left.lstat().st_uid == os.geteuid():
            shutil.rmtree(left, ignore_errors=True)
    old = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            tempfile.tempdir = old[0]
            os.environ.pop("TMPDIR")
            if old[1] is not None:
                os.environ["TMPDIR"] = old[1]
