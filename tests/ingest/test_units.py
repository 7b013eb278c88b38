"""Work units of files give the same shards in worker processes as in this one; an error of one stops all."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from components.ingest import units
from components.ingest.close import reports
from components.ingest.pool import Pool, WorkerDied
from components.ingest.survey.listing import Listing
from components.ingest.units import FilesUnit, Output
from components.ingest.write import shards
from components.settings.ingest import Ingest

SOURCE = "components.ingest.sources.image_folder:SOURCE"


@pytest.fixture
def work(data: Path, image: Callable[..., bytes], take: Callable[[Path], Listing]) -> list[FilesUnit]:
    """Units of forty images in two classes, and of a file that is no image."""
    for number in range(40):
        place = data / f"class {number % 2}" / f"{number}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(image(number))
    (data / "class 0" / "bad.png").write_bytes(b"no image")
    return [FilesUnit(shard, SOURCE, data) for shard in shards.assign(take(data).files, Ingest())]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes two worker processes write, however small the data is and however few cores there are."""
    monkeypatch.setattr(units, "_MANY_FILES", 1)
    monkeypatch.setattr(units, "_CORES", 2)


def write(work: list[FilesUnit], out: Path) -> int:
    """Writes all units, and returns the number of records that were counted."""
    counted: list[int] = []
    units.write_all(work, Output(out, Ingest(), out.with_suffix(".db")), counted.append)
    return sum(counted)


def files(out: Path) -> dict[str, bytes]:
    """Returns the content of all files that were written, by name."""
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def children() -> list[psutil.Process]:
    """Returns the worker processes of this one."""
    return [each for each in psutil.Process().children() if "components.ingest.pool" in each.cmdline()[-1]]


def test_worker_processes_write_the_same_files(
    work: list[FilesUnit], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Shards and reports are equal, and no process is left."""
    before = children()
    counted = write(work, tmp_path / "here")
    request.getfixturevalue("workers")

    assert write(work, tmp_path / "there") == counted == 41
    assert files(tmp_path / "there") == files(tmp_path / "here")
    assert children() == before
    found = reports.collect(tmp_path / "there", [unit.name for unit in work])
    assert [bad.path for report in found for bad in report.quarantined] == ["class 0/bad.png"]


@pytest.mark.usefixtures("workers")
def test_a_worker_that_is_killed_ends_the_ingest(
    work: list[FilesUnit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B11: nothing waits for it, and no other worker goes on."""
    before, start = children(), Pool.start

    def start_and_kill(pool: Pool, count: int) -> None:
        start(pool, count)
        for worker in pool._idle:
            os.kill(worker._process.pid, signal.SIGKILL)

    monkeypatch.setattr(Pool, "_take", lambda pool: pool._idle.pop())
    monkeypatch.setattr(Pool, "start", start_and_kill)

    with pytest.raises(WorkerDied, match="killed by SIGKILL, possibly out of memory"):
        write(work, tmp_path / "out")
    assert children() == before


@pytest.mark.usefixtures("workers")
def test_an_error_in_a_worker_is_raised_here(work: list[FilesUnit], tmp_path: Path) -> None:
    """With its own type: a folder that cannot be made, a disk that is full."""
    (tmp_path / "out").write_text("a file where the artifact should be")

    with pytest.raises(NotADirectoryError):
        write(work, tmp_path / "out")


def test_a_worker_imports_nothing_heavy() -> None:
    """So it starts in 0.1 s: pixels need NumPy, headers do not."""
    script = "import sys, components.ingest.units, components.ingest.sources.image_folder; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    heavy = {"apache_beam", "tensorflow", "pyarrow", "pydantic", "numpy", "components.settings"}
    assert heavy & set(done.stdout.split()) == set()
