"""The environment of workers: not the submitter's, the same code, and nothing of the working folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import PenstockError, SettingsError
from pipelines.engine import boot, workers
from pipelines.package import user_code, wheel

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def program() -> Path:
    """The boot program of workers that run this code."""
    return workers.ensure(print)


def test_workers_have_the_same_code_and_versions_in_an_environment_of_their_own(program: Path) -> None:
    """The check passes, and the program's Python is not ours."""
    workers.check(program)

    assert f"{Path(sys.prefix)}/" not in program.read_text()
    assert str(Path(boot.__file__).parent) not in program.read_text()


def test_workers_import_nothing_from_the_working_folder(program: Path, tmp_path: Path) -> None:
    """A json.py and a components/ in the working folder, or in PYTHONPATH, do not run (D11)."""
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    (tmp_path / "components").mkdir()
    (tmp_path / "components" / "__init__.py").write_text("raise SystemExit('imported')")
    done = subprocess.run(
        [str(program), "--self-test"], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["penstock"] == wheel.version()


def test_modules_of_the_user_are_installed_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker imports the module that a task names."""
    (tmp_path / "own_source.py").write_text("VALUE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = user_code.build(tmp_path / "wheels", ["own_source"])
    program = workers.ensure(print, own)
    workers.check(program, ["own_source"])
    with pytest.raises(PenstockError, match=r"cannot import .*No module named 'own_other'"):
        workers.check(program, ["own_other"])

    assert (program.with_suffix("") / "own_source.py").read_text() == "VALUE = 7\n"


def test_other_code_is_refused(tmp_path: Path) -> None:
    """A worker whose Penstock has another version of the source is named with both versions."""
    said = {"penstock": "0.1.0+srcother", **boot.versions()}
    program = tmp_path / "boot"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(said)}'\n")
    program.chmod(0o755)

    with pytest.raises(PenstockError, match=r"penstock 0\.1\.0\+srcother instead of "):
        workers.check(program)


def test_worker_with_other_code_than_the_job_names_ends(program: Path) -> None:
    """The options of the job name the versions of Penstock and of the user's modules."""
    python = program.read_text().splitlines()[1].partition(" -c ")[0].removeprefix("exec ")
    code = program.with_suffix("")

    def compared(*expected: str) -> tuple[int, str]:
        script = f"import sys; sys.path.insert(0, {str(code)!r})\nfrom pipelines.engine import boot\n"
        script += f"boot.compare(['use_x', *boot.expected(*{expected!r})])"
        done = subprocess.run([*python.split(), "-c", script], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert compared(wheel.version(), "") == (0, "")
    assert compared("0.1.0+srcother", "")[0] == 1
    assert "has other code than the run: penstock 0.1" in compared("0.1.0+srcother", "")[1]
    assert "penstock-user not installed, expected 0+src1" in compared(wheel.version(), "0+src1")[1]


def test_settings_of_uv_in_the_working_folder_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A uv.toml there could name another index."""
    (tmp_path / "uv.toml").write_text("this is no TOML")
    monkeypatch.chdir(tmp_path)

    workers._uv(["pip", "list", "--python", sys.executable])


def test_old_code_is_removed_and_the_newest_is_kept(tmp_path: Path) -> None:
    """The time of the last use counts."""
    for number in range(12):
        (tmp_path / f"0.1.0+src{number}").mkdir()
        program = tmp_path / f"0.1.0+src{number}.sh"
        program.touch()
        os.utime(program, (number, number))
    (tmp_path / "penstock-0.1.0+src3-py3-none-any.whl").touch()
    workers._remove_old(tmp_path)

    kept = {f"0.1.0+src{number}" for number in range(4, 12)}
    assert {each.name for each in tmp_path.iterdir()} == kept | {f"{name}.sh" for name in kept}


def test_missing_program_is_an_error(tmp_path: Path) -> None:
    """The message names the path."""
    with pytest.raises(SettingsError, match="does not exist"):
        workers.check(tmp_path / "boot")
