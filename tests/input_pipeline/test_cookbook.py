"""The code on docs/input-pipeline.md runs, in its order, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "input-pipeline.md"


def blocks(page: str) -> list[tuple[int, str]]:
    """Returns the Python code blocks of a page, with the line where each starts."""
    found = re.finditer(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [(page.count("\n", 0, block.start(1)), block[1]) for block in found]


@pytest.mark.all
def test_every_code_block_runs(tmp_path: Path) -> None:
    """As one program; a failure has the line number of the page."""
    lines = [""] * PAGE.read_text().count("\n")
    for start, code in blocks(PAGE.read_text()):
        lines[start : start + code.count("\n")] = code.splitlines()
    program = tmp_path / "cookbook.py"
    program.write_text("\n".join(lines))

    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert "(32, 2) (32,)" in done.stdout
    assert "input.ram_mb is 64: lower input.batch_size" in done.stdout


def test_every_function_of_the_api_has_an_example() -> None:
    """A new function needs its example."""
    from components import input_pipeline

    code = "\n".join(code for _, code in blocks(PAGE.read_text()))

    assert [name for name in input_pipeline.__all__ if name not in code] == []
