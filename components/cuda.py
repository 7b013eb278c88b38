"""CUDA from NVIDIA's wheels: lets TensorFlow find their libraries, in this process and in those that it starts.

    site-packages/tensorflow
    site-packages/nvidia/*/lib/lib*.so.* ─┬─► opened here, so that TensorFlow finds them by name
                                          └─► LD_LIBRARY_PATH, which Beam workers and helper processes inherit

TensorFlow 2.16.2 finds cuBLAS, cuDNN, cuFFT, cuSOLVER and cuSPARSE beside itself, unless LD_LIBRARY_PATH names other
versions; it does not find NCCL, CUPTI and NVRTC. A process reads LD_LIBRARY_PATH when it starts: docs/adr/0027.
Nothing happens if the wheels are not installed.
"""

import ctypes
import os
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from components import helper_process

DRIVER: Final = "libcuda.so.1"  # part of NVIDIA's driver, never of a wheel
# The folder of each wheel, and its library that TensorFlow, cuDNN or another one opens by name; those come first that
# others need.
LIBRARIES: Final = {
    "cuda_runtime": "libcudart",
    "nvjitlink": "libnvJitLink",
    "cublas": "libcublas",
    "cufft": "libcufft",
    "curand": "libcurand",
    "cusparse": "libcusparse",
    "cusolver": "libcusolver",
    "cuda_nvrtc": "libnvrtc",
    "cudnn": "libcudnn",
    "cuda_cupti": "libcupti",
    "nccl": "libnccl",
}
_SEARCH = {"LD_LIBRARY_PATH": "*/lib", "PATH": "cuda_nvcc/bin"}  # XLA calls ptxas, which is in the second
_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"  # without it, the first process of TensorFlow takes all of a GPU's memory
_TIMEOUT = 120  # seconds


def wheels() -> Path | None:
    """Returns the folder of NVIDIA's wheels beside TensorFlow, or None if there are none."""
    spec = find_spec("tensorflow")
    folder = Path(spec.origin).parents[1] / "nvidia" if spec and spec.origin else None
    return folder if folder and folder.is_dir() else None


def prepare(folder: Path | None = None) -> None:
    """Lets TensorFlow find the wheels' libraries; call it before TensorFlow is imported. Can be repeated.

    A library that does not open is left out: `penstock doctor` reports it.

    Args:
        folder: The folder of the wheels; searched if it is None.
    """
    os.environ.setdefault(_GROWTH, "true")
    folder = folder or wheels()
    if folder is None:
        return
    variables = environment(folder)
    if not variables.items() <= os.environ.items():  # else this process was started with them
        os.environ.update(variables)
        for wheel, library in LIBRARIES.items():
            for path in (folder / wheel / "lib").glob(f"{library}.so*"):
                _open(path)


def environment(folder: Path) -> dict[str, str]:
    """Returns the variables by which a new process finds the wheels' libraries and ptxas, before any others."""
    found = {}
    for name, pattern in _SEARCH.items():
        ours = sorted(map(str, folder.glob(pattern)))
        # An empty entry would name the working folder.
        others = [entry for entry in os.environ.get(name, "").split(os.pathsep) if entry and entry not in ours]
        if ours:
            found[name] = os.pathsep.join([*ours, *others])
    return found


def files(folder: Path, wheel: str) -> list[Path]:
    """Returns all libraries of one wheel."""
    return sorted((folder / wheel / "lib").glob("lib*.so*"))


def errors(folder: Path) -> dict[str, str]:
    """Opens the driver and all libraries in a new process; returns for each why it failed, or "" if it opened.

    A new process, because opening a damaged file may end it; then another one goes on after that file.
    """
    left = [DRIVER, *(str(path) for wheel in LIBRARIES for path in files(folder, wheel))]
    found: dict[str, str] = {}
    while left:
        command = helper_process.command(f"from {__name__} import report; report(sys.argv[1:])", *left)
        variables = {**os.environ, **environment(folder)}
        try:
            done = subprocess.run(command, env=variables, capture_output=True, timeout=_TIMEOUT, check=False)
            printed, code = done.stdout, done.returncode
            by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            failure = f"opening it ends the process ({by})"
        except subprocess.TimeoutExpired as error:  # such as cuInit of a driver that hangs
            printed, failure = error.stdout or b"", f"opening it took more than {_TIMEOUT} s"
        answers = printed.decode(errors="replace").splitlines()[: len(left)]
        found.update(zip(left, answers, strict=False))
        if len(answers) < len(left):
            found[left[len(answers)]] = failure
        left = left[len(answers) + 1 :]
    return found


def report(libraries: list[str]) -> None:
    """Prints one line per library: why it does not open, or an empty line."""
    for name in libraries:
        print(_start_driver() if name == DRIVER else _open(name), flush=True)


def _start_driver() -> str:
    if error := _open(DRIVER):
        return error
    code = ctypes.CDLL(DRIVER).cuInit(0)
    return f"{DRIVER} opens, but cuInit returns error {code}" if code else ""


def _open(library: Path | str) -> str:
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return str(error).replace("\n", " ")
    return ""
