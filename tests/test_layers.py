"""What commands load at run time. Which module may import which is checked by `lint-imports` (pyproject.toml)."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"tensorflow", "tfx", "apache_beam", "keras"}
DRY_RUN = ["penstock", "run", "image", "--dry-run", "--data", "data", "--root", "root"]


def modules_after(script: str, folder: Path) -> set[str]:
    """Returns the top-level modules that a new interpreter has loaded after a script, whatever its exit code."""
    listing = "import atexit, sys; atexit.register(lambda: print('MODULES', *sys.modules))\n"
    done = subprocess.run(
        [sys.executable, "-c", listing + script], cwd=folder, capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.rpartition("MODULES")[2].split()}


def command(*arguments: str) -> str:
    """Returns a script that runs a command."""
    return f"sys.argv = {list(arguments)}; from pipelines.cli import main; main()"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with class folders in `data`."""
    (tmp_path / "data" / "cats").mkdir(parents=True)
    (tmp_path / "data" / "cats" / "1.png").write_bytes(b"cat")
    return tmp_path


def test_importing_the_run_loads_nothing_heavy(tmp_path: Path) -> None:
    """TFX is imported only when a node is due."""
    loaded = modules_after("import pipelines.run", tmp_path)

    assert (loaded & HEAVY, "ml_metadata" in loaded) == (set(), True)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_next_to_nothing(option: str, tmp_path: Path) -> None:
    """They answer at once."""
    loaded = modules_after(command("penstock", option), tmp_path)

    assert loaded & {*HEAVY, "numpy", "pydantic", "ml_metadata"} == set()


def test_a_dry_run_loads_nothing_heavy_and_writes_nothing(data: Path) -> None:
    """Not even the root's folder."""
    loaded = modules_after(command(*DRY_RUN), data)

    assert (loaded & HEAVY, "ml_metadata" in loaded) == (set(), True)
    assert [path.name for path in data.iterdir()] == ["data"]
