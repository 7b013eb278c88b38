"""The commands: light until they measure, and wrong flags are found before anything is."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from components.errors import SettingsError
from pipelines.bench import cli

LIGHT = ("accelerators", "bench", "cli", "overlay", "records", "show", "trials", "tune")


def test_the_parent_imports_nothing_heavy(tmp_path: Path) -> None:
    """TensorFlow is for the processes that measure."""
    names = ", ".join(f"pipelines.bench.{name}" for name in LIGHT)
    script = f"import sys, {names}\nprint(*sorted({{'tensorflow', 'keras', 'tfx', 'apache_beam'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["image", "--accelerator", "tpu"], "--accelerator tpu: expected samples a second"),
        (["image", "--set", "input.prefech=3"], "unknown setting 'input.prefech': did you mean 'prefetch'?"),
        (["images"], "unknown task 'images': did you mean 'image'?"),
        (["image", "--records", "."], "--records .: expected a folder that `penstock ingest`"),
    ],
    ids=["device", "setting", "task", "records"],
)
def test_what_is_wrong_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """Before a process is started."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.bench, ["input", *arguments, "--data", str(tmp_path)])

    assert isinstance(result.exception, SettingsError)
    assert str(result.exception).startswith(said)


@pytest.mark.slow
def test_bench_input_prints_a_verdict(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures, stages, device and verdict on standard output."""
    monkeypatch.chdir(tmp_path)
    flags = ["--data", str(tmp_path), "--records", str(artifact), "--set", "input.batch_size=8"]
    result = CliRunner().invoke(cli.bench, ["input", "image", *flags, "--rounds", "1", "--seconds", "0.1"])
    heads = [line.split("  ")[0] for line in result.stdout.splitlines()]

    assert result.exception is None
    assert [head for head in heads if head in {"samples/s", "decode", "device", "verdict"}] == [
        "samples/s",
        "decode",
        "device",
        "verdict",
    ]
