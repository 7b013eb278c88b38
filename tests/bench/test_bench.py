"""What `bench input` makes of its measurements, and how it says so."""

from pathlib import Path

import pytest

from components.input_pipeline.diagnosis import Stage
from pipelines import config
from pipelines.bench import bench, show
from pipelines.bench.accelerators import Accelerator
from pipelines.bench.bench import Result, Wish
from pipelines.bench.trials import Facts, Figures

OURS = Figures(1800.0, 1000.0, 0.01, 0.5, 0.03, 0.05, 700.0, 0.66, 0.001, 0.02)
TUTORIAL = Figures(800.0, 2200.0, 0.01, 1.5, 0.06, 0.1, 1400.0)
STAGES = (Stage("read", 50.0), Stage("parse", 50.0), Stage("decode", 900.0))
RESULT = Result(
    artifact=Path("/a"),
    facts=Facts(4000, 304_000_000, ("native:1",), 600.0, "image"),
    batch_size=64,
    cores=2,
    ours=OURS,
    tutorial=TUTORIAL,
    stages=STAGES,
    device=Accelerator("H100, ResNet-50", 1786),
    verdict="input-bound 34 %: decoding is the limit",
)


def test_a_stage_is_the_difference_to_the_one_before_it() -> None:
    """The first one stands for itself."""
    costs = {"read": 50.0, "parse": 60.0, "decode": 660.0}

    assert bench.differences(costs) == (Stage("read", 50.0), Stage("parse", 10.0), Stage("decode", 600.0))


def test_what_is_shown() -> None:
    """Figures beside the tutorial's, stages, device, verdict."""
    assert show.result(RESULT) == [
        "4,000 records of 76.0 KB, batches of 64, 2 cores, decoder native:1",
        "",
        "                  ours                tutorial            ratio",
        "samples/s         1,800               800                 2.2x",
        "CPU-µs a sample   1,000.0             2,200.0             2.2x",
        "wait p50 / p99    30.00 / 50.00 ms    60.00 / 100.00 ms   2.0x",
        "first batch       0.50 s              1.50 s              3.0x",
        "peak memory       700 MB              1,400 MB            2.0x",
        "",
        "stage             CPU-µs a sample     share",
        "read              50.0                5 %",
        "parse             50.0                5 %",
        "decode            900.0               90 %",
        "",
        "device            H100, ResNet-50 (1,786/s): utilisation 66 %, stall p50 1.00 ms, p99 20.00 ms",
        "verdict           input-bound 34 %: decoding is the limit",
    ]


def test_a_busy_machine_is_said() -> None:
    """Rates that were taken beside others say little."""
    busy = Figures(**{**vars(OURS), "others": 0.4})
    shown = show.result(Result(**{**vars(RESULT), "ours": busy}))

    assert shown[-1] == "beware            others used 40 % of the machine: only CPU-µs hold"


def test_without_the_tutorial() -> None:
    """Where it cannot read the records, ours stands alone; without a device a part of our own rate is taken."""
    shown = show.result(Result(**{**vars(RESULT), "tutorial": None, "device": None}))

    assert shown[2:4] == ["                  ours", "samples/s         1,800"]
    assert shown[-2] == "device            0.9 of our rate: utilisation 66 %, stall p50 1.00 ms, p99 20.00 ms"


@pytest.mark.slow
def test_the_whole_of_it(artifact: Path, tmp_path: Path) -> None:
    """A device that no input can feed: it waits, the stages are measured, and the advice is measured too."""
    said: list[str] = []
    flags = ["input.batch_size=8", "input.image_size=32", "ingest.store_side=64"]
    chosen = config.make("image", data=str(tmp_path), root=str(tmp_path / "root"), flags=flags)
    found = bench.bench(chosen, Wish(str(artifact), "1e7", rounds=1, seconds=0.2), said.append)

    assert [stage.name for stage in found.stages] == list(bench.STAGES)
    assert found.tutorial is not None
    assert found.verdict.startswith("input-bound ")
    assert "use " in found.verdict
    assert " px (" in found.verdict or "input.cache=memory" in found.verdict
    assert said[-1] == "the device waits; measuring what would help …"
