"""B5: a disk that is full while each kind of artifact is written. One pipeline, one full disk after another."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Mounted = Callable[[Path, str], AbstractContextManager[Path]]
# Fills the disk of the root at the first call of a function, with a real file.
FILL = """
import pathlib
import OWNER as owner
whole = owner.FUNCTION
def fill_and_call(*arguments, **options):
    owner.FUNCTION = whole
    with open(ROOT + "/filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    return whole(*arguments, **options)
owner.FUNCTION = fill_and_call
"""


@pytest.fixture(scope="module")
def pipeline(
    rows: Path, tmp_path_factory: pytest.TempPathFactory, make_pipeline: Callable[..., Any], mounted: Mounted
) -> Iterator[Any]:
    """A new root on a disk of its own, on a small table."""
    disk = tmp_path_factory.mktemp("full") / "disk"
    with mounted(disk, "64m"):
        yield make_pipeline(rows, disk / "root", task="tabular", flags=("--set", "retry.attempts=1"))


def files(folder: Path) -> list[str]:
    """Returns the files below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def filling(owner: str, function: str, root: Path) -> str:
    """Returns code that fills the disk of the root when a function is called."""
    code = FILL.replace("OWNER", owner).replace("FUNCTION", function)
    return code.replace("ROOT", repr(str(root)))


# In the order of the chain: each run reuses what the runs before it have finished. `make test` has each way to write.
@pytest.mark.parametrize(
    ("node", "place"),
    [
        ("Ingest", "Ingest"),
        ("Schema", "Schema"),
        pytest.param("StatisticsGen", "StatisticsGen", marks=pytest.mark.all),
        pytest.param("ExampleValidator", "ExampleValidator", marks=pytest.mark.all),
        pytest.param("Gate", "Gate", marks=pytest.mark.all),
        ("Transform", "Transform"),
        ("Trainer", "Trainer"),
        pytest.param("Evaluator", "Evaluator", marks=pytest.mark.all),
        ("Pusher", "serving"),
        pytest.param("Pusher", "Pusher", marks=pytest.mark.all),
    ],
)
def test_output_of_a_node(pipeline: Any, mounted: Mounted, quick_table: tuple[str, ...], node: str, place: str) -> None:
    """B5: exit code 7, the right disk with needed and free, the node failed, and nothing under a final name."""
    folder = pipeline.root / place
    with mounted(folder, "4k"):
        (folder / "filler").write_bytes(bytes(4096))
        result = pipeline.run(*quick_table, "--to", node)
        left = [name for name in files(folder) if name not in ("filler", ".lock")]

    lacking = rf"no space left on the disk at {folder}: 0.0 MB free, more than the [\d.]+ MB needed that {node} had"
    unfit = r"the model needs [\d.]+ MB, its disk has 0.0 MB free"
    assert result.code == 7, result.output
    assert re.search(rf"^{folder}\S*: ({lacking}|{unfit})", result.output, re.MULTILINE), result.output
    assert left == []
    assert pipeline.newest(node).state == "FAILED"


def test_metadata_report_and_caches(pipeline: Any, quick_table: tuple[str, ...]) -> None:
    """B5: a root that is full from the start, in the metadata or after the last node; the served model stays.

    B15: the run goes on without a damaged hash cache and says so once.
    """
    launch = filling("tfx.orchestration.portable.launcher", "Launcher", pipeline.root)
    unregistered = pipeline.run(*quick_table, before=launch)
    (pipeline.root / "filler").unlink()
    report = filling("pipelines.report.page", "write", pipeline.root)
    unreported = pipeline.run(*quick_table, before=report)
    served = files(pipeline.root / "serving" / "1")
    filled = pipeline.run(*quick_table, "--force", "Pusher")
    (pipeline.root / "filler").unlink()
    cache = pipeline.root / ".penstock" / "hashes.db"
    cache.write_bytes(cache.read_bytes()[:4096] + b"\xab" * 8192)
    again = pipeline.run(*quick_table)

    for result in (unregistered, unreported, filled):
        disk = rf"{pipeline.root}\S*: no space left on the disk at {pipeline.root.parent}: 0.0 MB free, the data alone"
        assert result.code == 7, result.output
        assert re.search(disk, result.output), result.output
    assert "blessed and pushed as version" not in unregistered.output
    assert again.code == 0, again.output
    assert again.output.count(f"penstock: warning: cache {cache}: damaged") == 1, again.output
    assert files(pipeline.root / "serving" / "1") == served
    with sqlite3.connect(pipeline.root / "metadata.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
