"""The Python environment of workers: not the submitter's, but the same code and the same versions.

    requirements-worker.lock ─► <home>/workers/<digest>/       an environment, made once by uv
    Penstock's wheel         ─► …/<digest>/code/<version>/     its files; the version contains a digest of the source
                             ─► …/<digest>/code/<version>.sh   the boot program that a task manager starts

A change of Penstock's source costs a second, a change of the lock about a minute.
"""

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from components.errors import PenstockError, SettingsError
from components.storage import durable
from pipelines.config import HOME
from pipelines.engine import boot, places
from pipelines.package import wheel

_MINUTES = 20
_KEPT = 8  # versions of the code; an engine that runs uses one of them
_SELF_TEST_SECONDS = 120
Say = Callable[[str], None]


def ensure(say: Say, own: Path | None = None) -> Path:
    """Returns the boot program of workers that run this code; makes their environment first if it is missing.

    Args:
        say: shows a message to the user.
        own: wheel of the user's own modules.
    """
    with places.one_at_a_time():
        return _ensure(say, own)


def _ensure(say: Say, own: Path | None) -> Path:
    python = _environment(say)
    version = ".".join([wheel.version(), *(own.name.split("-")[1:2] if own else ())])
    code = python.parents[1] / "code" / version
    program = code.with_name(f"{version}.sh")
    if not program.exists():
        durable.remove(code)
        built = wheel.build(code.parent)
        into = ["--python", str(python), "--target", str(code)]
        _uv(["pip", "install", "--quiet", "--no-deps", "--no-index", *into], built, *([own] if own else ()))
        _build_native(python, code)
        command = shlex.join(_command(python, code, "from pipelines.engine.boot import main; main()"))
        with durable.publish_file(program) as aside:
            aside.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            aside.chmod(0o755)
    os.utime(program)  # the newest ones are kept
    _remove_old(code.parent)
    return program


def _remove_old(folder: Path) -> None:
    """Removes code that was not used lately: programs first, so that no half of one is ever used."""
    programs = sorted(folder.glob("*.sh"), key=lambda file: file.stat().st_mtime, reverse=True)
    for program in programs[_KEPT:]:
        program.unlink()
        durable.remove(program.with_suffix(""))
    for built in folder.glob("*.whl"):  # installed from, and not used again
        built.unlink()


def _command(python: Path, code: Path, program: str) -> list[str]:
    """Returns the command of a program in the workers' environment; the working folder is not searched."""
    start = f"import sys; sys.path.insert(0, {str(code)!r}); {program}"
    return [str(python), "-I", "-X", f"utf8={sys.flags.utf8_mode}", "-c", start]


def _build_native(python: Path, code: Path) -> None:
    """Compiles the JPEG libraries now: workers that start together would do so at the same time. It may fail."""
    build = "import runpy; runpy.run_module('components.native.build', run_name='__main__')"
    subprocess.run(
        _command(python, code, build), capture_output=True, check=False, timeout=_MINUTES * 60, stdin=subprocess.DEVNULL
    )


def check(program: Path, modules: Sequence[str] = ()) -> None:
    """Starts a boot program's self-test; raises PenstockError unless workers would run this code and these versions.

    Args:
        program: of a worker.
        modules: of the user, which the worker must be able to import.
    """
    fix = "delete its folder, and run `penstock engine stop flink` and `penstock engine start flink`"
    if not program.exists():
        raise SettingsError(f"the workers' boot program {program} does not exist; {fix}")
    try:
        done = subprocess.run(
            [str(program), "--self-test", *(f"--import={each}" for each in modules)],
            capture_output=True, text=True, check=False, timeout=_SELF_TEST_SECONDS,
            stdin=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        said = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise PenstockError(f"the workers' boot program {program} does not run: {error}; {fix}") from None
    if not isinstance(said, dict):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise PenstockError(f"a worker cannot import Penstock or what it needs ({last}), started by {program}; {fix}")
    expected = {"penstock": wheel.version(), **boot.versions()}
    different = [
        f"{name} {said.get(name)} instead of {each}" for name, each in expected.items() if said.get(name) != each
    ]
    if different:
        raise PenstockError(f"workers have other code than this process: {', '.join(different)} ({program}); {fix}")


def _environment(say: Say) -> Path:
    """Returns the Python of the workers' environment."""
    lock = wheel.WORKER_LOCK
    digest = hashlib.sha256(lock.read_bytes() + platform.python_version().encode()).hexdigest()[:16]
    folder = places.home() / "workers" / digest
    python, stamp = folder / "bin" / "python", folder / ".ready"
    if not stamp.exists():
        say("making the Python environment of workers (once per change of its requirements)")
        durable.remove(folder)
        _uv(["venv", "--quiet", "--no-project", "--python", sys.executable], folder)
        sync = ["pip", "sync", "--quiet", "--python", str(python), "--require-hashes", "--compile-bytecode"]
        _uv([*sync, "--build-constraints", str(lock)], lock)
        (folder / "code").mkdir()
        stamp.touch()
    return folder / "bin" / "python"


def _uv(arguments: Sequence[str], *files: Path) -> None:
    try:
        done = subprocess.run(
            [_find_uv(), "--no-config", *arguments, *(str(file.absolute()) for file in files)], cwd="/",
            capture_output=True, text=True, check=False, timeout=_MINUTES * 60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PenstockError(f"uv took longer than {_MINUTES} minutes; check the network and run again") from None
    if done.returncode:
        raise PenstockError(
            f"uv {' '.join(arguments[:2])} failed; check the network and run again:\n{done.stderr[-2000:]}"
        )


def _find_uv() -> str:
    script = HOME / "scripts" / "setup.sh"
    if script.exists():
        found = subprocess.run([str(script), "--uv"], capture_output=True, text=True, check=False).stdout.strip()
        if found:
            return found if found.startswith("/") else str(HOME / found)
    if named := shutil.which("uv"):
        return named
    raise SettingsError(
        "workers have an environment of their own, which uv makes: uv is not on the PATH; pip install uv"
    )
