"""The command `penstock inspect`."""

import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data import digits
from tests.inspection.conftest import image_file, run_python


def test_an_error() -> None:
    """One line on standard error, and the exit code of bad input."""
    done = penstock("inspect", "nothing.csv")

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("penstock: nothing.csv: 0 examples")


def test_raw_data_needs_no_tensorflow() -> None:
    """Nor TFX or Beam, so the command starts in a second; Pillow only for images."""
    pq.write_table(pa.table({"a": [1]}), "rows.parquet")
    Path("rows.csv").write_text("a,b\n1,2\n")
    Path("pets/cat").mkdir(parents=True)
    Path("pets/cat/1.png").write_bytes(image_file((1, 1, 1)))
    script = (
        "import sys; from pipelines.inspection import inspect\n"
        "for paths in (['rows.parquet', 'rows.csv'], ['pets']):\n"
        "    for path in paths: inspect(path, sys.stderr)\n"
        "    print(*sorted({'tensorflow', 'tfx', 'apache_beam', 'keras', 'pyarrow', 'PIL'} & {*sys.modules}))"
    )

    assert run_python(script).stdout.splitlines() == ["pyarrow", "PIL pyarrow"]


@pytest.mark.slow
def test_inspect_after_ingest() -> None:
    """The output of `penstock ingest` matches its manifest."""
    digits.write_image_folder(Path("digits"), limit=60)
    made = penstock("ingest", "digits", "--out", "examples", "--set", "ingest.min_shards=2")
    assert made.returncode == 0, made.stderr

    done = penstock("inspect", "examples", "--verify", "--rows", "2", "--sheet", "sheet.png")

    assert done.returncode == 0, done.stderr
    assert "records      60 of 60" in done.stdout
    assert "matches the shards by size and checksum" in done.stdout
    assert "60 images in sheet.png" in done.stdout


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a fresh process."""
    script = f"import sys; sys.argv = {['penstock', *arguments]}; from pipelines.cli import main; main()"
    return run_python(script)
