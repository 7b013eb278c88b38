"""Files that would run code if they were trusted: in the data, and in the folder where the command is started."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PENSTOCK = Path(sys.executable).with_name("penstock")
TRAPS = ("json.py", "io.py", "numpy.py", "pyarrow.py", "components/__init__.py", "cupy.py", "sitecustomize.py")
WORKERS = ("--", "--direct_num_workers=2", "--direct_running_mode=multi_processing")

CRAFT = """
import sys
import pyarrow as pa, pyarrow.parquet as pq

class Trap(pa.PyExtensionType):
    def __init__(self):
        super().__init__(pa.int64())

    def __reduce__(self):
        return exec, (f"open({sys.argv[2]!r}, 'w').close()",)

numbers = pa.array(range(100))
kinds = pa.array(["a", "b"] * 50)
pq.write_table(pa.table({"n": pa.ExtensionArray.from_storage(Trap(), numbers), "kind": kinds}), sys.argv[1])
pq.write_table(pa.table({"n": numbers, "kind": kinds}), sys.argv[3])
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Parquet file that runs code in Arrow 10, a plain one, and a working folder with traps."""
    folder = tmp_path_factory.mktemp("untrusted")
    for name in TRAPS:
        (folder / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "work" / name).write_text(f"open({str(folder / 'ran')!r}, 'a').write(__name__ + ' ')\n")
    names = [str(folder / name) for name in ("crafted.parquet", "ran", "plain.parquet")]
    subprocess.run([sys.executable, "-c", CRAFT, *names], check=True)  # its own process: the type stays registered
    return folder


def penstock(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs the installed command in the working folder with the traps."""
    return subprocess.run(
        [str(PENSTOCK), *arguments], cwd=home / "work", capture_output=True, text=True, check=False, timeout=300
    )


def test_a_crafted_parquet_file_runs_no_code(home: Path) -> None:
    """D10: ingest, inspect and a dry run name the file and the reason, with exit code 4; nothing was executed."""
    data = str(home / "crafted.parquet")
    done = [
        penstock(home, "ingest", data, "--out", str(home / "out"), "--label", "kind"),
        penstock(home, "inspect", data),
        penstock(home, "run", "tabular", "--data", data, "--root", str(home / "root"), "--dry-run", "--label", "kind"),
    ]

    assert [each.returncode for each in done] == [4, 4, 4], done
    assert [f"{data}: a column has a Python extension type" in each.stderr for each in done] == [True] * 3, done
    assert not (home / "ran").exists()


@pytest.mark.parametrize("flags", [(), pytest.param(WORKERS, marks=pytest.mark.all)], ids=["alone", "workers"])
def test_nothing_is_imported_from_the_working_folder(home: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """D11: neither by the command nor by the processes that decode Parquet, nor by Beam's workers."""
    data = str(home / "plain.parquet")
    done = penstock(home, "ingest", data, "--label", "kind", "--out", str(tmp_path / "out"), *flags)

    assert done.returncode == 0, done
    assert not (home / "ran").exists()
