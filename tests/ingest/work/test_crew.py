"""Helpers write what this process would: the same bytes, the same account, the same errors; one that dies is told."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import psutil
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from components.errors import PenstockError
from components.ingest import run
from components.ingest.survey import survey
from components.ingest.work import crew
from components.ingest.work.files_unit import FilesUnit, Target
from components.ingest.work.helper import Helper
from components.ingest.work.shards import ShardPlan
from components.records import manifest
from components.settings.ingest import Ingest
from components.storage.hashing import HashCache


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a helper may do: it says what it was told."""
    (tmp_path / "echoing.py").write_text("def serve(pipe):\n    while True:\n        pipe.send(pipe.recv())\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "echoing:serve"


@pytest.fixture
def images(data: Path, image: Callable[..., bytes]) -> Path:
    """Forty images in two classes, and a file that is none."""
    for number in range(40):
        place = data / f"class {number % 2}" / f"{number}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(image(number))
    (data / "class 0" / "bad.png").write_bytes(b"no image")
    return data


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two helpers, however small the data is and however few the cores are."""
    monkeypatch.setattr(run, "_MANY", 1)
    monkeypatch.setattr(crew, "_CORES", 3)


def ingest(data: Path, out: Path) -> manifest.Manifest:
    """Ingests a folder of images."""
    settings, cache = Ingest(max_bad_fraction=0.1), HashCache(None)
    out.mkdir()
    found = survey.take(str(data), settings, cache)
    job = run.Job(found, Target(out, settings, out.with_suffix(".db")), out / "bad.jsonl")
    return run.run(job, lambda: beam.Pipeline(options=PipelineOptions([])), lambda: found)


def files(out: Path) -> dict[str, bytes]:
    """Returns all that was written, by name."""
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def helpers() -> list[psutil.Process]:
    """Returns the helpers that write shards for this process."""
    return [each for each in psutil.Process().children() if "crew:serve" in each.cmdline()[-1]]


def test_helpers_write_the_same_bytes(images: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Shards, account and quarantine; and none of them is left behind."""
    alone = ingest(images, tmp_path / "alone")
    request.getfixturevalue("helped")

    assert ingest(images, tmp_path / "helped") == alone
    assert files(tmp_path / "helped") == files(tmp_path / "alone")
    assert alone.quarantined == 1
    assert helpers() == []


@pytest.mark.usefixtures("helped")
def test_nobody_waits_for_a_helper_that_does_not_come(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start takes time; until then this process does all there is to do."""
    monkeypatch.setattr(crew._Beside, "is_there", lambda _: False)
    monkeypatch.setattr(crew._Beside, "write", None)

    assert sum(ingest(images, tmp_path / "out").records.values()) == 40
    assert helpers() == []


def test_what_goes_wrong_in_a_helper_is_raised_here(images: Path, tmp_path: Path) -> None:
    """As what it is: whoever waits for a full disk hears of one."""
    unit = FilesUnit(ShardPlan("train", 0, 1, ()), "components.ingest.sources.image_folder:SOURCE", images)

    beside = crew._Beside()

    with pytest.raises(FileNotFoundError, match="No such file"):
        beside.write(unit, Target(tmp_path / "without a plan", Ingest()))
    beside.close()


def test_a_helper_that_is_killed_is_told(images: Path, tmp_path: Path) -> None:
    """B11: nobody waits for it for ever."""
    unit = FilesUnit(ShardPlan("train", 0, 1, ()), "components.ingest.sources.image_folder:SOURCE", images)
    beside = crew._Beside()
    for helper in helpers():
        helper.kill()

    with pytest.raises(PenstockError, match="a process that writes shards died"):
        beside.write(unit, Target(tmp_path, Ingest()))
    beside.close()


def test_a_helper_starts_with_little() -> None:
    """What takes long to import is imported when it is needed: pixels take NumPy, headers do not."""
    script = "import sys, components.ingest.work.crew, components.ingest.sources.image_folder; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    heavy = {"apache_beam", "tensorflow", "pyarrow", "pydantic", "numpy", "components.settings"}
    assert heavy & set(done.stdout.split()) == set()


def test_a_helper_answers_and_ends_when_it_is_closed(echo: str) -> None:
    """It is asked as often as wanted."""
    helper = Helper(echo)
    for word in ("one", "two"):
        helper.pipe.send(word)
        assert helper.pipe.recv() == word
    helper.close()

    assert not helper.alive()


def test_a_helper_takes_no_file_of_the_users_for_pythons_own(
    echo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a script there may be anything, such as an io.py."""
    (tmp_path / "io.py").write_text("raise SystemExit('this is not the io that you are looking for')")
    monkeypatch.syspath_prepend(str(tmp_path))

    helper = Helper(echo)
    helper.pipe.send("word")

    assert helper.pipe.recv() == "word"
    helper.close()


def test_a_helper_ends_with_whoever_started_it(echo: str) -> None:
    """Also when that one is killed, and could not say so."""
    code = f"from components.ingest.work.helper import Helper; h = Helper({echo!r}); h.pipe.send(1); h.pipe.recv()"
    told = "; print(h._process.pid, flush=True); import time; time.sleep(60)"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code + told], stdout=subprocess.PIPE, text=True, env=paths)
    assert parent.stdout is not None
    helper = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()

    psutil.wait_procs([helper], timeout=10)
    assert not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE
