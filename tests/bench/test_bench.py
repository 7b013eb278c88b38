"""`penstock bench input`: the command, the verdict, the table."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from components import diagnosis
from components.diagnosis import Stage
from components.errors import SettingsError
from pipelines import cli
from pipelines.bench import show, train
from pipelines.bench.accelerators import Accelerator
from pipelines.bench.bench import BenchResult
from pipelines.bench.measurements import (
    STAGES,
    MeasureJob,
    Measurement,
    MeasureResult,
    RecordFacts,
    TrainMeasurement,
    TrainResult,
)
from pipelines.bench.processes import jobs
from pipelines.bench.train import TrainBench

NO_TENSORFLOW = ("accelerators", "bench", "processes.jobs", "locate", "settings_file", "show", "train", "tune")
OURS = Measurement(1800.0, 1000.0, 0.01, 0.5, 0.03, 0.05, 700.0, 0.66, 0.001, 0.02)
RESULT = BenchResult(
    facts=RecordFacts(4000, 304_000_000, ("native:1",), 600.0, "image", 64),
    cores=2,
    ours=OURS,
    tutorial=Measurement(800.0, 2200.0, 0.01, 1.5, 0.06, 0.1, 1400.0),
    stages=(Stage("read", 50.0), Stage("parse", 50.0), Stage("decode", 900.0)),
    device=Accelerator("H100, ResNet-50", 1786),
    verdict="input-bound 34 %: decoding is the limit",
)


def test_stage_costs_are_differences() -> None:
    """A stage costs what it adds to the stage before it."""
    costs = {"read": 50.0, "parse": 60.0, "decode": 660.0}

    assert diagnosis.differences(costs) == (Stage("read", 50.0), Stage("parse", 10.0), Stage("decode", 600.0))


def test_table() -> None:
    """The table shows figures beside the tutorial's, stages, device and verdict."""
    assert show.benched(RESULT).splitlines() == [
        "4,000 records of 76.0 KB, batches of 64, 2 cores, decoder native:1",
        "",
        "                  Penstock            tutorial            ratio",
        "samples/s         1,800               800                 2.2x",
        "CPU-µs per sample 1,000.0             2,200.0             2.2x",
        "wait p50 / p99    30.00 / 50.00 ms    60.00 / 100.00 ms   2.0x",
        "first batch       0.50 s              1.50 s              3.0x",
        "peak memory       700 MB              1,400 MB            2.0x",
        "",
        "stage             CPU-µs per sample   share",
        "read              50.0                5 %",
        "parse             50.0                5 %",
        "decode            900.0               90 %",
        "",
        "device            H100, ResNet-50 (1,786/s): utilisation 66 %, stall p50 1.00 ms, p99 20.00 ms",
        "verdict           input-bound 34 %: decoding is the limit",
    ]


def test_table_on_a_busy_machine() -> None:
    """A machine that other processes use gets a warning."""
    shown = show.benched(replace(RESULT, ours=replace(OURS, others=0.4))).splitlines()

    assert shown[-1] == "warning           other processes used 40 % of the machine: trust only the CPU-µs"


def test_table_without_tutorial_and_device() -> None:
    """One column if the tutorial cannot read the records; a share of our own rate if no device is named."""
    shown = show.benched(replace(RESULT, tutorial=None, device=None)).splitlines()

    assert shown[2:4] == ["                  Penstock", "samples/s         1,800"]
    assert shown[-2] == (
        "device            simulated at 0.9 of Penstock's rate: utilisation 66 %, stall p50 1.00 ms, p99 20.00 ms"
    )


def test_commands_import_no_tensorflow(tmp_path: Path) -> None:
    """TensorFlow is imported by worker processes only."""
    names = ", ".join(f"pipelines.bench.{name}" for name in NO_TENSORFLOW)
    script = f"import sys, {names}\nprint(*sorted({{'tensorflow', 'keras', 'tfx', 'apache_beam'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["image", "--accelerator", "tpu"], "--accelerator tpu: expected samples per second"),
        (["image", "--set", "input.prefech=3"], "unknown setting 'input.prefech': did you mean 'prefetch'?"),
        (["images"], "unknown task 'images': did you mean 'image'?"),
        (["image", "--records", "."], "--records .: no manifest.json in it"),
    ],
    ids=["accelerator", "setting", "task", "records"],
)
def test_invalid_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    """Invalid flags are rejected before anything is measured."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.app, ["bench", "input", *arguments, "--data", str(tmp_path)])

    assert isinstance(result.exception, SettingsError)
    assert str(result.exception).startswith(message)


def test_bench_input(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that waits: every stage is measured, and the verdict names the remedies that were measured."""
    costs = {"read": 50.0, "parse": 60.0, "decode": 660.0, "augment": 700.0, "batch": 1000.0, "tutorial": 2000.0}

    def run(job: MeasureJob) -> MeasureResult:
        costs_of = [500.0 if each.ingest else costs[each.kind] for each in job.variants]
        utilisation = 0.5 if job.device_rate else 0.0
        measured = [(Measurement(1e6 / cost, cost, 0.0, 0.5, 0.03, 0.05, 700.0, utilisation),) for cost in costs_of]
        return MeasureResult(RESULT.facts, tuple(measured))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "run", run)
    arguments = ["--data", str(tmp_path), "--records", str(artifact), "--accelerator", "1500", "--rounds", "1"]
    result = CliRunner().invoke(cli.app, ["bench", "input", "image", *arguments, "--set", "ingest.store_side=64"])

    assert result.exception is None
    assert [line.split() for line in result.stdout.splitlines() if line.startswith(STAGES)] == [
        ["read", "50.0", "5", "%"],
        ["parse", "10.0", "1", "%"],
        ["decode", "600.0", "60", "%"],
        ["augment", "40.0", "4", "%"],
        ["batch", "300.0", "30", "%"],
    ]
    assert result.stdout.splitlines()[-1] == (
        "verdict           input-bound 50 %: decoding is the limit; "
        "store at 64 px (2.0x) or store raw at 64 px (2.0x) or input.cache=memory (2.9x)"
    )


TRAINED = TrainBench(
    facts=RESULT.facts,
    cores=2,
    devices=(
        TrainMeasurement("CPU", 1800.0, 900.4, 810.0, 0.02),
        TrainMeasurement("GPU:0", 1800.0, 9000.0, 1710.0, 0.8),
    ),
    verdict="input-bound 80 %: run `penstock bench input` to find the stage that is the limit",
)


def test_table_of_training() -> None:
    """One column per device: input and model alone, together, and the share of waiting."""
    assert show.trained(TRAINED).splitlines() == [
        "4,000 records of 76.0 KB, batches of 64, 2 cores, decoder native:1",
        "",
        "                  CPU                 GPU:0",
        "input alone       1,800 samples/s     1,800 samples/s",
        "model alone       900 samples/s       9,000 samples/s",
        "together          810 samples/s       1,710 samples/s",
        "waiting for input 2 %                 80 %",
        "",
        "verdict           input-bound 80 %: run `penstock bench input` to find the stage that is the limit",
    ]


def test_bench_train(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians over the rounds; the waiting decides the verdict if the input is slower than the model."""
    rounds = [TrainMeasurement("CPU", 1e3 * each, 5000.0, 400.0, 0.1 * each) for each in (1, 3, 2)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "run_training", lambda _: TrainResult(RESULT.facts, rounds.pop(), gpus=0))
    arguments = ["bench", "train", "image", "--data", str(tmp_path), "--records", str(artifact)]
    shown = CliRunner().invoke(cli.app, arguments).output.splitlines()

    assert (shown[-6], shown[-3], shown[-1]) == (
        "input alone       2,000 samples/s",
        "waiting for input 20 %",
        "verdict           input-bound 20 %: run `penstock bench input` to find the stage that is the limit",
    )


def test_a_faster_input_does_not_limit_training() -> None:
    """Even if training waits for it, because both share the cores."""
    assert train.verdict(TrainMeasurement("CPU", 2000.0, 500.0, 400.0, 0.12)) == (
        "not input-bound: the input alone is 4.0x as fast as the model; "
        "training waits 12 % of the time because both share the processor"
    )


def test_a_pretrained_model_is_not_measured(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rejected before anything is measured."""
    monkeypatch.chdir(tmp_path)
    flags = ["--data", str(tmp_path), "--records", str(artifact), "--set", "extract.model=some.keras"]
    result = CliRunner().invoke(cli.app, ["bench", "train", "image", *flags])

    assert isinstance(result.exception, SettingsError)
    assert "expected no extract.model" in str(result.exception)


def test_bench_train_compares_devices(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two GPUs: both of them, the CPU, and one of them."""
    names = {"auto": "GPU:0, GPU:1", "cpu": "CPU:0", "one": "GPU:0"}
    monkeypatch.setattr(
        jobs,
        "run_training",
        lambda job: TrainResult(
            RESULT.facts, TrainMeasurement(names[job.settings.train.devices], 1.0, 1.0, 1.0, 0.0), gpus=2
        ),
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["bench", "train", "image", "--data", str(tmp_path), "--records", str(artifact)]
    shown = CliRunner().invoke(cli.app, arguments).output.splitlines()

    assert shown[-7] == "                  GPU:0, GPU:1        CPU:0               GPU:0"
