"""The doctor names each problem and what to do about it, without importing TensorFlow."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from components import cuda
from components.native import build
from pipelines import doctor
from pipelines.doctor import (
    Check,
    checks,
    glibc_check,
    gpu_checks,
    keras_check,
    memory_check,
    native_check,
    pins_check,
    python_check,
    render,
)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def _no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of these tests may have CUDA's wheels."""
    monkeypatch.setattr(cuda, "wheels", lambda: None)


@pytest.mark.usefixtures("_no_wheels")
def test_everything_that_a_run_depends_on_is_checked() -> None:
    """Once each, in order."""
    assert [check.name for check in checks()] == [
        "Python", "glibc", "pins", "Keras", "pip", "bytecode", "g++", "native JPEG",
        "disk", "RAM", "CPU", "GPU", "Java", "Maven",
    ]  # fmt: skip


def test_the_doctor_imports_neither_tensorflow_nor_tfx() -> None:
    """Importing them would take 8 seconds; the checks take one."""
    script = "import sys; from pipelines import doctor; doctor.checks(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not {"tensorflow", "tfx", "keras", "apache_beam", "numpy"} & set(done.stdout.split())


@pytest.mark.parametrize(("found", "ok"), [((3, 10, 13), True), ((3, 11, 0), False), ((3, 9, 18), False)])
def test_only_python_3_10_is_accepted(found: tuple[int, ...], ok: bool) -> None:
    """TFX 1.16 has no wheels for later versions."""
    assert python_check(found).ok is ok


@pytest.mark.parametrize(("found", "ok"), [((2, 17), True), ((2, 36), True), ((2, 9), False), (None, False)])
def test_glibc_is_compared_by_number(found: tuple[int, int] | None, ok: bool) -> None:
    """2.9 is older than 2.17, and a system without glibc has no wheels."""
    assert glibc_check(found).ok is ok


@pytest.mark.parametrize(
    ("installed", "environment", "config", "ok"),
    [
        ("3.12.4", {}, {}, True),
        ("3.12.4", {"KERAS_BACKEND": "tensorflow"}, {"backend": "jax"}, True),
        ("3.12.4", {"KERAS_BACKEND": "jax"}, {}, False),
        ("3.12.4", {}, {"backend": "torch"}, False),
        ("3.12.4", {"TF_USE_LEGACY_KERAS": "1"}, {}, False),
        ("3.12.4", {"TF_USE_LEGACY_KERAS": "0"}, {}, True),
        ("2.15.0", {}, {}, False),
        (None, {}, {}, False),
    ],
)
def test_keras_3_on_tensorflow_is_required(
    installed: str | None,
    environment: Mapping[str, str],
    config: Mapping[str, object],
    ok: bool,
) -> None:
    """Variables and a file that select another Keras are detected."""
    assert keras_check(installed, environment, config).ok is ok


def test_packages_that_differ_from_the_lock_are_named(tmp_path: Path) -> None:
    """With installed and locked version, or as missing."""
    lock = tmp_path / "requirements.lock"
    lock.write_text("pytest==0.1 \\\n    --hash=sha256:00\nno-such-thing[extra]==2.0\n")

    check = pins_check(lock)

    assert not check.ok
    assert check.found == (
        f"2 of 2 differ: pytest {pytest.__version__} (locked 0.1), no-such-thing missing (locked 2.0)"
    )


def test_without_a_lock_the_pins_are_not_compared(tmp_path: Path) -> None:
    """An installed wheel has no lock file; that is not an error."""
    assert pins_check(tmp_path / "requirements.lock").ok


def test_this_environment_is_the_locked_one() -> None:
    """The tests run on the versions that users get."""
    check = pins_check(ROOT / "requirements.lock")

    assert check.ok, check.found


class TestNative:
    """The native JPEG libraries."""

    def test_built_libraries_are_shown_with_their_versions(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        """Of TensorFlow and Pillow."""
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        for library in (build.CHECK, build.DECODE):
            build.place(library).parent.mkdir(parents=True)
            build.place(library).touch()

        check = native_check({})

        versions = f"TensorFlow {version('tensorflow')}, Pillow {version('pillow')}"
        assert (check.ok, check.found) == (True, f"decoder and checker, built for {versions}")

    def test_missing_libraries_are_a_warning_with_the_command_that_builds_them(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        """Everything works without them."""
        monkeypatch.setattr(sys, "prefix", str(tmp_path))

        check = native_check({})

        assert (check.ok, check.required, check.found) == (False, False, "not built for these versions")
        assert "python -m components.native.build" in check.advice

    def test_turned_off_is_ok(self) -> None:
        """The user chose so."""
        check = native_check({"PENSTOCK_NATIVE": "0"})

        assert (check.ok, check.found) == (True, "turned off by PENSTOCK_NATIVE=0")


class TestGpu:
    """The GPU, its driver, and the libraries of each wheel."""

    def test_a_gpu_without_wheels_names_the_command(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """TensorFlow would train on the CPU without a word."""
        (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA A100, 550.54'; echo 'NVIDIA A100, 550.54'\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

        assert render(gpu_checks(None)).split("\n") == [
            "warn  GPU  NVIDIA A100, 550.54; NVIDIA A100, 550.54; no GPU wheels installed",
            "           → Run `make setup GPU=1`; until then training runs on the CPU.",
        ]

    def test_each_wheel_says_whether_its_libraries_open(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A file that is no library, a missing wheel and a driver that does not open are named; the rest is ok."""
        driver = tmp_path / "driver" / "libcuda.so.1"
        driver.parent.mkdir()
        driver.write_bytes(b"")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver.parent))
        for wheel in set(cuda.LIBRARIES) - {"nccl"}:
            library = tmp_path / wheel / "lib" / f"lib{wheel}.so.12"
            library.parent.mkdir(parents=True)
            subprocess.run(["gcc", "-shared", "-x", "c", os.devnull, "-o", library], check=True)
        damaged = tmp_path / "cudnn" / "lib" / "libcudnn.so.12"
        damaged.write_bytes(b"")

        gpu, *libraries = gpu_checks(tmp_path)

        assert (gpu.ok, gpu.found) == (False, f"{driver}: file too short")
        assert "Install NVIDIA's driver" in gpu.advice
        assert {check.name: check.found for check in libraries} == {
            wheel: f"lib{wheel}.so.12" for wheel in cuda.LIBRARIES
        } | {"cudnn": f"{damaged}: file too short", "nccl": "missing"}
        assert {check.name for check in libraries if not check.ok} == {"cudnn", "nccl"}


def test_too_little_memory_fails() -> None:
    """Below 4 GB a run may be killed."""
    assert [memory_check(gigabytes * 10**9).ok for gigabytes in (3, 4)] == [False, True]


def test_lines_are_aligned_and_advice_follows_what_is_not_ok() -> None:
    """Failed required checks say FAIL, others warn; a check that is ok has no advice."""
    text = render(
        [
            Check("RAM", ok=True, found="8.0 GB", advice="unused", required=True),
            Check("Python", ok=False, found="3.12.1", advice="Run `make setup`.", required=True),
            Check("Java", ok=False, found="missing", advice="Only Flink needs it.", required=False),
        ]
    )

    assert text.split("\n") == [
        "ok    RAM     8.0 GB",
        "FAIL  Python  3.12.1",
        "              → Run `make setup`.",
        "warn  Java    missing",
        "              → Only Flink needs it.",
    ]


@pytest.mark.parametrize(("required", "code"), [(True, 1), (False, 0)])
def test_only_a_required_check_fails_the_command(
    required: bool,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Warnings do not."""
    monkeypatch.setattr(doctor, "checks", lambda: (Check("x", ok=False, found="", advice="", required=required),))

    assert doctor.main() == code


@pytest.mark.usefixtures("_no_wheels")
def test_missing_commands_are_warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No g++, no nvidia-smi and no java on the PATH raise no exception."""
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))

    found = {check.name: (check.ok, check.found) for check in checks()}

    assert found["g++"] == (False, "missing")
    assert found["GPU"] == (True, "none: training runs on the CPU")
    assert found["Java"] == (False, "missing")
