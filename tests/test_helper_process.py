"""Helper processes find modules where their parent does, but not in the working folder."""

import os
import subprocess
from pathlib import Path

import pytest

from components import helper_process


@pytest.mark.parametrize("spelling", ["work", "work/", ".", "link", "work/../work"])
def test_the_working_folder_is_not_searched_under_any_name(
    spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D11: a real process; PYTHONPATH still allows the folder."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "trap.py").touch()
    (tmp_path / "link").symlink_to(tmp_path / "work")
    entry = spelling if spelling == "." else f"{tmp_path}/{spelling}"
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.syspath_prepend(entry)
    codes = []
    for path in ("", entry):
        monkeypatch.setenv("PYTHONPATH", path)
        command = helper_process.command("import importlib.util; sys.exit(importlib.util.find_spec('trap') is None)")
        codes.append(subprocess.run(command, check=False, env={**os.environ}).returncode)

    assert codes == [1, 0]
