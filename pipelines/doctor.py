"""`penstock doctor`: checks whether this machine can run Penstock.

    checks() => (Check, …) => render() => lines of text

Each check reports what it found and, if there is a problem, what to do. Nothing here imports TensorFlow or TFX, so the
doctor answers at once, and also works if they cannot be imported.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from components import cuda

_GB = 10**9
_LOCKS = Path(__file__).resolve().parents[1]
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
_NAMED_DIFFERENCES = 5
_NEEDS_DRIVER = (
    "Training runs on the CPU. Install NVIDIA's driver (version 525 or later); in a container, "
    "give it the GPU (docker run --gpus all). Without a GPU, `make setup GPU=0` removes CUDA's wheels."
)
_NEEDS_COMPILER = "Set-up needs it to build pyfarmhash: install g++ (Debian, Ubuntu: apt-get install g++)."


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    found: str
    advice: str = ""  # what to do if it is not ok
    required: bool = False  # whether runs fail without it


def checks() -> tuple[Check, ...]:
    """Returns all checks, the most important first."""
    return (
        python_check(sys.version_info[:3]),
        glibc_check(_glibc_version()),
        pins_check(_LOCKS / ("requirements-gpu.lock" if cuda.wheels() else "requirements.lock")),
        keras_check(_installed("keras"), os.environ, _keras_config()),
        presence_check("pip", _installed("pip"), "Run `make setup`: TFX calls pip.", required=True),
        bytecode_check(),
        presence_check("g++", _output("g++", "--version"), _NEEDS_COMPILER),
        native_check(os.environ),
        disk_check(Path.cwd()),
        memory_check(_memory_bytes()),
        cores_check(),
        *gpu_checks(cuda.wheels()),
        presence_check("Java", shutil.which("java"), "Only `penstock engine start flink` needs it (JDK 17)."),
        presence_check("Maven", shutil.which("mvn"), "Only the first `penstock engine start flink` needs it."),
    )


def render(results: Sequence[Check]) -> str:
    """Returns one aligned line per check, followed by its advice if it is not ok."""
    width = max(len(check.name) for check in results)
    lines = []
    for check in results:
        state = "ok" if check.ok else "FAIL" if check.required else "warn"
        lines.append(f"{state:<4}  {check.name:<{width}}  {check.found}")
        if not check.ok:
            lines.append(f"{'':<4}  {'':<{width}}  → {check.advice}")
    return "\n".join(lines)


def main() -> int:
    """Prints all checks; returns 1 if a required one failed."""
    results = checks()
    print(render(results))
    return int(any(check.required and not check.ok for check in results))


def python_check(found: tuple[int, ...]) -> Check:
    """Checks the Python version: TFX 1.16 has wheels up to Python 3.10."""
    text = ".".join(map(str, found))
    return Check("Python", found[:2] == (3, 10), text, "Penstock needs Python 3.10: run `make setup`.", required=True)


def glibc_check(found: tuple[int, int] | None) -> Check:
    """Checks glibc: the locked wheels are built for glibc 2.17; those of TFX 1.17 and later for 2.39."""
    if found is None:
        text, advice = "none", "TFX has wheels for Linux with glibc only: use such a machine or container."
    else:
        text = f"{found[0]}.{found[1]} (2.17 is enough for TFX 1.16; 1.17 and later need 2.39)"
        advice = "Use a newer Linux, such as Debian 10 or later."
    return Check("glibc", found is not None and found >= (2, 17), text, advice, required=True)


def pins_check(lock: Path) -> Check:
    """Compares installed versions with the lock: other versions are the most frequent cause of TFX errors."""
    if not lock.is_file():
        return Check("pins", ok=True, found=f"not compared: no {lock.name} here")
    pins = [(name, locked, _installed(name)) for name, locked in _PIN.findall(lock.read_text())]
    differing = [f"{name} {found or 'missing'} (locked {locked})" for name, locked, found in pins if found != locked]
    named = ", ".join(differing[:_NAMED_DIFFERENCES]) + (", …" if len(differing) > _NAMED_DIFFERENCES else "")
    text = f"{len(differing)} of {len(pins)} differ: {named}" if differing else f"all {len(pins)} as locked"
    return Check("pins", not differing, text, "Run `make setup`.", required=True)


def keras_check(installed: str | None, environment: Mapping[str, str], config: Mapping[str, object]) -> Check:
    """Checks for Keras 3 on TensorFlow: two variables and a file can silently select another Keras."""
    backend = environment.get("KERAS_BACKEND") or config.get("backend") or "tensorflow"
    # The three spellings that TensorFlow accepts.
    legacy = environment.get("TF_USE_LEGACY_KERAS") in {"1", "true", "True"}
    found = f"{installed or 'missing'} on {backend}" + (", but TF_USE_LEGACY_KERAS selects Keras 2" if legacy else "")
    ok = (installed or "").startswith("3.") and backend == "tensorflow" and not legacy
    advice = "Unset TF_USE_LEGACY_KERAS and KERAS_BACKEND, and set no other backend in ~/.keras/keras.json."
    return Check("Keras", ok, found, advice if installed else "Run `make setup`.", required=True)


def bytecode_check() -> Check:
    """Checks for compiled bytecode: without it TFX takes three to four times as long to import."""
    spec = find_spec("tfx")
    compiled = bool(spec and spec.origin and Path(cache_from_source(spec.origin)).is_file())
    found = "compiled" if compiled else "not compiled: importing TFX takes 48 s instead of 13 s"
    return Check("bytecode", compiled, found, "Run `make clean setup`.")


def native_check(environment: Mapping[str, str]) -> Check:
    """Checks the native JPEG libraries: without them training decodes at 1/3 and ingest checks at 1/2 of the speed."""
    from components.native import build

    if environment.get(build.SWITCH) == "0":
        return Check("native JPEG", ok=True, found=f"turned off by {build.SWITCH}=0")
    try:
        ok = all(build.find(library) for library in (build.DECODE, build.CHECK))
        versions = f"TensorFlow {version('tensorflow')}, Pillow {version('pillow')}"
        found = f"decoder and checker, built for {versions}" if ok else "not built for these versions"
    except build.NotBuilt as error:
        ok, found = False, str(error)
    advice = (
        "Run `python -m components.native.build`; until then TensorFlow decodes at a third of the speed, "
        "and ingest checks JPEGs at half of it."
    )
    return Check("native JPEG", ok, found, advice)


def disk_check(folder: Path) -> Check:
    """Checks free disk space."""
    free = shutil.disk_usage(folder).free
    advice = "Runs need at least 2 GB: free disk space, or use another folder."
    return Check("disk", free >= 2 * _GB, f"{free / _GB:,.0f} GB free in {folder}", advice, required=True)


def memory_check(total: int) -> Check:
    """Checks memory: TensorFlow, Beam and a shuffle buffer fit into 4 GB."""
    advice = "Runs need 4 GB: give the machine or container more memory."
    return Check("RAM", total >= 4 * _GB, f"{total / _GB:.1f} GB", advice, required=True)


def cores_check() -> Check:
    """Reports the number of CPU cores; any number is fine."""
    # Not every system reports which cores a process may use; os.cpu_count() counts those of other containers too.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Check("CPU", ok=True, found=f"{cores} cores")


def gpu_checks(wheels: Path | None) -> tuple[Check, ...]:
    """Checks the GPU, and with CUDA's wheels the driver and each library: TensorFlow uses a GPU only if all open."""
    listing = _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    if wheels is None:
        found = f"{_one_line(listing)}; no GPU wheels installed" if listing else "none: training runs on the CPU"
        return (Check("GPU", not listing, found, "Run `make setup GPU=1`; until then training runs on the CPU."),)
    errors = cuda.errors(wheels)
    driver = errors.pop(cuda.DRIVER)
    shown = _one_line(listing) if listing else "driver opens; nvidia-smi shows no GPU"
    libraries = (_wheel_check(wheel, cuda.files(wheels, wheel), errors) for wheel in cuda.LIBRARIES)
    return (Check("GPU", not driver, driver or shown, _NEEDS_DRIVER), *libraries)


def _wheel_check(wheel: str, files: Sequence[Path], errors: Mapping[str, str]) -> Check:
    failed = [error for path in files if (error := errors[str(path)])]
    found = failed[0] if failed else ", ".join(path.name for path in files) or "missing"
    return Check(wheel, bool(files) and not failed, found, "Run `make clean setup GPU=1`: this wheel is not complete.")


def _one_line(text: str) -> str:
    return "; ".join(text.split("\n"))


def presence_check(name: str, found: str | None, advice: str, *, required: bool = False) -> Check:
    """Checks for a tool: shows its version or path, or that it is missing."""
    return Check(name, bool(found), found.split("\n")[0] if found else "missing", advice, required)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _glibc_version() -> tuple[int, int] | None:
    name, found = platform.libc_ver()
    numbers = re.match(r"(\d+)\.(\d+)", found)
    return (int(numbers[1]), int(numbers[2])) if name == "glibc" and numbers else None


def _keras_config() -> Mapping[str, object]:
    """Returns the content of keras.json; Keras ignores an unreadable file, too."""
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    try:
        config = json.loads((home / "keras.json").read_text())
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def _memory_bytes() -> int:
    """Returns the memory of the machine, or the limit of the container if that is lower."""
    import psutil

    total = psutil.virtual_memory().total
    try:
        return min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no cgroup v2, or the word "max"
        return total


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
