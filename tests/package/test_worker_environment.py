"""The worker requirement set, installed into an empty environment with Penstock's wheel."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.package import wheel

pytestmark = [pytest.mark.all, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
IMPORT_ALL = """
import importlib, json, pkgutil, sys
import components
failed = {}
for module in pkgutil.walk_packages(components.__path__, "components."):
    try:
        importlib.import_module(module.name)
    except Exception as error:
        failed[module.name] = repr(error)
from importlib.metadata import version
print(json.dumps({"failed": failed, "version": version("penstock"), "where": components.__file__}))
"""
INGEST = """
import json, sys
from pathlib import Path
from components.settings import tree
from pipelines import ingest
flags = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
settings = tree.load([{"ingest": {"label": "label"}}]).ingest
request = ingest.IngestRequest(sys.argv[1], Path(sys.argv[2]), settings, flags, False, None)
if __name__ == "__main__":
    made = ingest.ingest(request)
    print(json.dumps({"found": made.found, "written": sum(shard.records for shard in made.shards)}))
"""


@pytest.fixture(scope="module")
def uv() -> Path:
    """The uv that set-up uses."""
    found = shutil.which("uv") or ROOT / ".tools" / "uv" / "bin" / "uv"
    if not Path(found).exists():
        pytest.skip("uv is not installed; run `make setup`")
    return Path(found)


@pytest.fixture(scope="module")
def python(uv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with the locked packages and the wheel, and nothing else."""
    folder = tmp_path_factory.mktemp("worker")
    place = folder / "venv"
    python = place / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--no-project", "--python", sys.executable, place], check=True)
    lock = str(wheel.WORKER_LOCK)
    sync: list[str | Path] = [
        uv,
        "pip",
        "sync",
        "--offline",
        "--python",
        python,
        "--require-hashes",
        "--build-constraints",
        lock,
        lock,
    ]
    done = subprocess.run(sync, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"uv's cache does not hold the packages of the lock: {done.stderr.strip()[-200:]}")
    install: list[str | Path] = [
        uv,
        "pip",
        "install",
        "--offline",
        "--python",
        python,
        "--no-deps",
        wheel.build(folder),
    ]
    subprocess.run(install, check=True, capture_output=True)
    return python


def answer(python: Path, code: str, *arguments: Path) -> Any:
    """Returns the last line that a program printed, as JSON; it sees no folder of the checkout."""
    command: list[str | Path] = [python, "-I", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=python.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_set_is_complete_and_consistent(python: Path, uv: Path) -> None:
    """`pip check` finds nothing that is missing or of a wrong version."""
    done = subprocess.run([uv, "pip", "check", "--python", python], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_all_code_of_nodes_can_be_imported(python: Path) -> None:
    """From the wheel, with the version of our sources; the command line's packages are not there."""
    found = answer(python, IMPORT_ALL)

    assert found["failed"] == {}
    assert found["version"] == wheel.version()
    assert found["where"].startswith(str(python.parents[1]))
    assert importlib.util.find_spec("typer") is not None
    assert (
        answer(python, "import importlib.util; print('null' if not importlib.util.find_spec('typer') else 1)") is None
    )


def test_it_ingests_a_table_with_beam_workers(python: Path, tmp_path: Path) -> None:
    """Beam's worker processes of that environment write the shards; all records are there."""
    rows = "".join(f"{number},{number % 7},{'ab'[number % 2]}\n" for number in range(500))
    (tmp_path / "table.csv").write_text(f"id,x,label\n{rows}")
    found = answer(python, INGEST, tmp_path / "table.csv", tmp_path / "out")

    assert found == {"found": 500, "written": 500}
