"""The libraries of NVIDIA's wheels are found by name, in this process and in those that it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from components import cuda

ROOT = Path(__file__).resolve().parents[1]
TRY = """
import ctypes, json, os, subprocess
from pathlib import Path
from components import cuda, helper_process
def opens(name):
    try:
        return ctypes.CDLL(name).version()
    except OSError:
        return None
"""
NAMES = ("libnccl.so.2", "libcusparse.so.12")


def compile_library(path: Path, version: int, *flags: str) -> Path:
    """Writes a real shared library with one function, `version`, and cuInit, which never returns if it is -1."""
    path.parent.mkdir(parents=True, exist_ok=True)
    start = f"while ({version} == -1); return {version};"
    source = f"int version(void) {{ return {version}; }} int cuInit(int flags) {{ {start} }}"
    words = ["gcc", "-shared", "-x", "c", "-", "-x", "none", *flags, f"-Wl,-soname,{path.name}", "-o", str(path)]
    subprocess.run(words, input=source, text=True, check=True)
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree like that of the wheels: one library needs another one of another folder."""
    folder = tmp_path_factory.mktemp("site-packages") / "nvidia"
    compile_library(folder / "nccl" / "lib" / "libnccl.so.2", 2)
    linker = compile_library(folder / "nvjitlink" / "lib" / "libnvJitLink.so.12", 3)
    compile_library(folder / "cusparse" / "lib" / "libcusparse.so.12", 4, "-Wl,--no-as-needed", str(linker))
    (folder / "cuda_nvcc" / "bin").mkdir(parents=True)
    return folder


def run(script: str, wheels: Path, **environment: str) -> object:
    """Runs a script in a new process; returns what it printed as JSON."""
    variables = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    code = f"{TRY}NAMES = {NAMES!r}\nWHEELS = Path({str(wheels)!r})\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables | environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_libraries_are_found_by_name_only_after_prepare(wheels: Path) -> None:
    """Real dlopen; the second library needs the third, which has no search path of its own."""
    found = run(
        "before = [opens(name) for name in NAMES]\n"
        "cuda.prepare(WHEELS)\n"
        "print(json.dumps([before, [opens(name) for name in NAMES]]))",
        wheels,
    )

    assert found == [[None, None], [2, 4]]


def test_a_helper_process_finds_them(wheels: Path) -> None:
    """Also an isolated one (`-I -S`), as Beam's workers are, and without opening them at its start."""
    program = "import ctypes; print(ctypes.CDLL('libcusparse.so.12').version())"
    found = run(
        f"cuda.prepare(WHEELS)\nsubprocess.run(helper_process.command({program!r}), check=True)",
        wheels,
    )

    assert found == 4


def test_the_wheels_come_before_other_versions(wheels: Path, tmp_path: Path) -> None:
    """LD_LIBRARY_PATH of a system with another CUDA stays, after ours; an empty entry, the working folder, does not."""
    compile_library(tmp_path / "libnccl.so.2", 99)
    found = run(
        "cuda.prepare(WHEELS)\nprint(json.dumps([opens('libnccl.so.2'), os.environ['LD_LIBRARY_PATH']]))",
        wheels,
        LD_LIBRARY_PATH=f"{tmp_path}:",
    )

    ours = [f"{wheels}/{name}/lib" for name in ("cusparse", "nccl", "nvjitlink")]
    assert found == [2, ":".join([*ours, str(tmp_path)])]


def test_xla_finds_ptxas_and_the_second_call_changes_nothing(wheels: Path) -> None:
    """XLA searches the PATH first, where another CUDA may be."""
    found = run(
        "cuda.prepare(WHEELS)\nonce = dict(os.environ)\ncuda.prepare(WHEELS)\n"
        "print(json.dumps([os.environ['PATH'].split(':')[0], once == dict(os.environ)]))",
        wheels,
    )

    assert found == [f"{wheels}/cuda_nvcc/bin", True]


@pytest.mark.parametrize(("chosen", "expected"), [({}, "true"), ({"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, "false")])
def test_gpu_memory_grows_unless_the_user_decides(chosen: dict[str, str], expected: str, wheels: Path) -> None:
    """Otherwise the first process takes the whole GPU. Without libraries nothing else is set."""
    found = run(
        "once = dict(os.environ)\ncuda.prepare(WHEELS / 'cuda_nvcc')\nnow = dict(os.environ)\n"
        "print(json.dumps([now.pop('TF_FORCE_GPU_ALLOW_GROWTH'), {**now, **once} == once]))",
        wheels,
        **chosen,
    )

    assert found == [expected, True]


class TestErrors:
    """`errors` opens each library in another process."""

    def test_a_damaged_library_ends_neither_this_process_nor_the_check(self, tmp_path: Path) -> None:
        """A library that is cut, as by a full disk, kills a process that opens it; the next ones are still opened."""
        whole = compile_library(tmp_path / "nccl" / "lib" / "libnccl.so.2", 2)
        cut = compile_library(tmp_path / "cufft" / "lib" / "libcufft.so.11", 2)
        cut.write_bytes(cut.read_bytes()[:4096])

        found = cuda.errors(tmp_path)

        assert [*found] == [cuda.DRIVER, str(cut), str(whole)]
        assert found[str(whole)] == ""
        assert found[str(cut)] == "opening it ends the process (SIGBUS)"

    @pytest.mark.parametrize(("code", "error"), [(0, ""), (100, "libcuda.so.1 opens, but cuInit returns error 100")])
    def test_the_driver_is_started(
        self, code: int, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A driver that opens may still not work: no GPU, or another version than the kernel's."""
        compile_library(tmp_path / "driver" / "libcuda.so.1", code)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "driver"))

        assert cuda.errors(tmp_path) == {cuda.DRIVER: error}

    def test_a_driver_that_hangs_is_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The process that waits for cuInit is ended."""
        compile_library(tmp_path / "driver" / "libcuda.so.1", -1)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "driver"))
        monkeypatch.setattr(cuda, "_TIMEOUT", 1)

        assert cuda.errors(tmp_path) == {cuda.DRIVER: "opening it took more than 1 s"}


@pytest.mark.slow
def test_tensorflow_finds_a_library_that_is_not_on_its_own_path(wheels: Path) -> None:
    """TensorFlow 2.16.2 does not search NCCL's folder: its own loader opens it by name, and reports another error."""
    found = run(
        "cuda.prepare(WHEELS)\nimport tensorflow as tf\nerrors = {}\n"
        "for name in ('libnccl.so.2', 'libmissing.so.2'):\n"
        "    try:\n        tf.load_op_library(name)\n        errors[name] = ''\n"
        "    except tf.errors.NotFoundError as error:\n        errors[name] = 'not found'\n"
        "print(json.dumps(errors))",
        wheels,
    )

    assert found == {"libnccl.so.2": "", "libmissing.so.2": "not found"}
