"""The doctor names what is wrong and what helps, at once and without TensorFlow."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from components.native import build
from pipelines import doctor
from pipelines.doctor import (
    Check,
    checks,
    glibc_check,
    keras_check,
    memory_check,
    native_check,
    pins_check,
    python_check,
    render,
)

ROOT = Path(__file__).resolve().parents[1]


def test_all_that_a_run_depends_on_is_looked_at() -> None:
    """Each check is there once, under its name."""
    assert [check.name for check in checks()] == [
        "Python", "glibc", "pins", "Keras", "pip", "bytecode", "g++", "native JPEG",
        "disk", "RAM", "CPU", "GPU", "Java",
    ]  # fmt: skip


def test_the_doctor_imports_neither_tensorflow_nor_tfx() -> None:
    """They would take 8 seconds; the checks take one."""
    script = "import sys; from pipelines import doctor; doctor.checks(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not {"tensorflow", "tfx", "keras", "apache_beam", "numpy"} & set(done.stdout.split())


@pytest.mark.parametrize(("found", "ok"), [((3, 10, 13), True), ((3, 11, 0), False), ((3, 9, 18), False)])
def test_only_python_3_10_will_do(found: tuple[int, ...], ok: bool) -> None:
    """TFX 1.16 has no wheels for later ones."""
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
def test_keras_3_on_tensorflow_is_wanted(
    installed: str | None,
    environment: Mapping[str, str],
    config: Mapping[str, object],
    ok: bool,
) -> None:
    """The variables and the file that choose another Keras are found out."""
    assert keras_check(installed, environment, config).ok is ok


def test_packages_that_differ_from_the_lock_are_named(tmp_path: Path) -> None:
    """Version and locked version are both shown, a missing package as missing."""
    lock = tmp_path / "requirements.lock"
    lock.write_text("pytest==0.1 \\\n    --hash=sha256:00\nno-such-thing[extra]==2.0\n")

    check = pins_check(lock)

    assert not check.ok
    assert check.found == (
        f"2 of 2 differ: pytest {pytest.__version__} (locked 0.1), no-such-thing missing (locked 2.0)"
    )


def test_without_a_lock_the_pins_are_not_compared(tmp_path: Path) -> None:
    """An installed wheel has no lock beside it, and that is no fault."""
    assert pins_check(tmp_path / "requirements.lock").ok


def test_this_environment_is_the_locked_one() -> None:
    """What the tests run on is what users get."""
    check = pins_check(ROOT / "requirements.lock")

    assert check.ok, check.found


class TestNative:
    """Whether the native op is there, by what stands on disk."""

    def test_a_library_is_told_with_the_versions_it_was_built_for(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        """Those that are installed: with others it would not be found."""
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        for library in (build.CHECK, build.DECODE):
            recipe = build.recipe(library)
            folder = build.home(library) / recipe.key
            folder.mkdir(parents=True)
            (folder / library.file).touch()
            (folder / "built.json").write_text(json.dumps(dataclasses.asdict(recipe)))

        check = native_check({})

        versions = f"TensorFlow {recipe.tensorflow}, Pillow {recipe.pillow}"
        assert (check.ok, check.found) == (True, f"decoder and checker, built for {versions}")

    def test_a_missing_one_is_a_warning_with_the_command_that_helps(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        """Everything works without it."""
        monkeypatch.setattr(sys, "prefix", str(tmp_path))

        check = native_check({})

        assert (check.ok, check.required, check.found) == (False, False, "not built for these versions")
        assert "python -m components.native.build" in check.advice

    def test_turned_off_is_no_fault(self) -> None:
        """It was somebody's wish."""
        check = native_check({"PENSTOCK_NATIVE": "0"})

        assert (check.ok, check.found) == (True, "turned off by PENSTOCK_NATIVE=0")


def test_little_memory_fails() -> None:
    """Below 4 GB a run may be killed half way."""
    assert [memory_check(gigabytes * 10**9).ok for gigabytes in (3, 4)] == [False, True]


def test_lines_are_aligned_and_advice_follows_what_is_not_ok() -> None:
    """Required faults say FAIL, others warn; what is ok needs no advice."""
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
def test_only_a_required_fault_is_an_exit_code(
    required: bool,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Warnings do not fail a script that asks the doctor first."""
    monkeypatch.setattr(doctor, "checks", lambda: (Check("x", ok=False, found="", advice="", required=required),))

    assert doctor.main() == code


def test_a_command_that_is_missing_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No g++, no nvidia-smi, no java on the PATH: warnings and no exception."""
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))

    found = {check.name: (check.ok, check.found) for check in checks()}

    assert found["g++"] == (False, "missing")
    assert found["GPU"] == (True, "none: training runs on the CPU")
    assert found["Java"] == (False, "missing")
