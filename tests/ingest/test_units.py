"""Files are divided by their listing alone; worker processes write the same shards; an error of one stops all."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from components.ingest import units
from components.ingest.close import reports
from components.ingest.pool import Pool, WorkerDied
from components.ingest.sources import SourceFile
from components.ingest.survey import detect, spans, survey
from components.ingest.survey.listed_files import ListedFile, ListedFiles
from components.ingest.survey.listing import Listing
from components.ingest.units import FilesUnit, Output
from components.settings.ingest import Ingest
from components.storage.hashing import HashCache


@pytest.fixture
def work(data: Path, image: Callable[..., bytes]) -> survey.SpanFiles:
    """Forty images in two classes, and a file that is no image."""
    for number in range(40):
        place = data / f"class {number % 2}" / f"{number}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(image(number))
    (data / "class 0" / "bad.png").write_bytes(b"no image")
    (span,) = survey.take(str(data), Ingest(), HashCache(None)).spans
    return span


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes two worker processes write, however small the data is and however few cores there are."""
    monkeypatch.setattr(units, "_MANY_FILES", 1)
    monkeypatch.setattr(units, "_CORES", 2)


def write(work: survey.SpanFiles, out: Path) -> int:
    """Writes all units, and returns the number of records that were counted."""
    counted: list[int] = []
    units.write_all(units.of_files(work, Ingest(), out), Output(out, Ingest(), out.with_suffix(".db")), counted.append)
    return sum(counted)


def files(out: Path) -> dict[str, bytes]:
    """Returns the content of all files that were written, by name."""
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def children() -> list[psutil.Process]:
    """Returns the worker processes of this one."""
    return [each for each in psutil.Process().children() if "components.ingest.pool" in each.cmdline()[-1]]


def test_worker_processes_write_the_same_files(
    work: survey.SpanFiles, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Shards and reports are equal, and no process is left."""
    before = children()
    counted = write(work, tmp_path / "here")
    request.getfixturevalue("workers")

    assert write(work, tmp_path / "there") == counted == 41
    assert files(tmp_path / "there") == files(tmp_path / "here")
    assert children() == before
    found = reports.collect(tmp_path / "there", [f"files-{number:05d}-of-00008" for number in range(8)])
    assert [bad.path for report in found for bad in report.quarantined] == ["class 0/bad.png"]


@pytest.mark.usefixtures("workers")
def test_a_worker_that_is_killed_ends_the_ingest(
    work: survey.SpanFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
def test_an_error_in_a_worker_is_raised_here(work: survey.SpanFiles, tmp_path: Path) -> None:
    """With its own type: a folder that cannot be made, a disk that is full."""
    todo = units.of_files(work, Ingest(), tmp_path / "out")
    for split in ("train", "eval", "test"):
        (tmp_path / "out" / f"Split-{split}").write_text("a file where the folder should be")

    with pytest.raises(FileExistsError):
        units.write_all(todo, Output(tmp_path / "out", Ingest()), lambda _: None)


def test_a_worker_imports_nothing_heavy() -> None:
    """So it starts in 0.1 s: pixels need NumPy, headers do not."""
    script = "import sys, components.ingest.units, components.ingest.sources.image_folder; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    heavy = {"apache_beam", "tensorflow", "pyarrow", "pydantic", "numpy", "components.settings"}
    assert heavy & set(done.stdout.split()) == set()


def spread(files: int, size: int, settings: Ingest, out: Path) -> list[FilesUnit]:
    """Returns the units of two classes, listed one after the other."""
    half = files // 2
    listed = ListedFiles(
        ListedFile(SourceFile(f"{label}/{number}", label), size, "ab" * 32)
        for label, count in (("cats", half), ("dogs", files - half))
        for number in range(count)
    )
    located = detect.Located(out, (), detect.IMAGE_FOLDER)
    return units.of_files(survey.SpanFiles(spans.Span(""), located, "", Listing(listed, (), ())), settings, out)


@pytest.mark.parametrize(
    ("files", "size", "count"), [(1, 10, 1), (5, 10, 5), (1_000, 10, 8), (40, 100 << 20, 32), (50_000, 1, 8)]
)
def test_units_have_shard_mb_and_are_as_many_as_min_shards(files: int, size: int, count: int, tmp_path: Path) -> None:
    """At least one file each, and at most so many that their list stays small."""
    made = spread(files, size, Ingest(), tmp_path)

    assert len(made) == count
    assert sorted(number for unit in made for number in unit.numbers) == list(range(files))
    assert max(len(unit.numbers) for unit in made) - min(len(unit.numbers) for unit in made) <= 1


def test_each_unit_has_its_share_of_every_class(tmp_path: Path) -> None:
    """Although a listing has one class after the other."""
    made = spread(800, 10, Ingest(), tmp_path)
    labels = [Counter(item.file.label for item in reports.files_of(tmp_path, unit.shard)) for unit in made]

    assert labels == [{"cats": 50, "dogs": 50}] * 8
