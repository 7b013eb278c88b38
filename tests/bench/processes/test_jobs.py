"""Jobs run in a fresh process; the worker measures their variants."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.errors import BadInput, PenstockError
from components.settings.ingest import Ingest
from components.settings.input import Input
from components.settings.tree import Settings
from pipelines.bench import measurements
from pipelines.bench.measurements import MeasureJob, Measurement, Variant
from pipelines.bench.processes import input_worker, jobs

SETTINGS = Input(batch_size=8, image_size=32)


def job(artifact: Path, *variants: Variant) -> MeasureJob:
    """A job of the shortest possible measurements."""
    return MeasureJob("image", Settings(), artifact, None, variants, warm_up=0.01, seconds=0.05)


def measurement(rate: float) -> Measurement:
    """The figures of one round."""
    return Measurement(rate, 1e6 / rate, 0.0, 0.5, 0.01, 0.02, 700.0)


class Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> Any:
        """What the worker process calls when it receives the job."""
        return os._exit, (1,)


def test_median_of_each_figure() -> None:
    """Medians are taken figure by figure over the rounds."""
    assert measurements.median([measurement(rate) for rate in (100, 400, 200)]) == measurement(200)


def test_each_round_starts_with_another_variant() -> None:
    """No variant is always the first."""
    assert [input_worker.turns(3, number) for number in range(4)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


@pytest.mark.all
def test_every_variant_is_measured(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, the tutorial code, a stage, and images stored smaller, in a fresh process.

    D11: a `json.py` in the working folder is not imported by that process.
    """
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    variants = [Variant(kind, SETTINGS) for kind in ("batch", "tutorial", "decode")]
    variants.append(Variant("batch", SETTINGS, Ingest(store="jpeg", store_side=64)))
    result = jobs.run(replace(job(artifact, *variants), device_share=0.9))

    assert (result.facts.records, result.facts.images) == (40, "image")
    assert [len(rounds) for rounds in result.measured] == [1] * 4
    rounds = [each for rounds in result.measured for each in rounds]
    assert all(each.rate > 0 and each.cpu_us > 0 and each.peak_mb > 100 for each in rounds)
    assert all(0 < each.utilisation <= 1 for each in rounds)


@pytest.mark.slow
def test_a_damaged_shard(artifact: Path, tmp_path: Path) -> None:
    """The error says that the records cannot be read."""
    broken = tmp_path / "broken"
    shutil.copytree(artifact, broken)
    shard = next((broken / "Split-train").iterdir())
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)

    with pytest.raises(BadInput, match="corrupted record"):
        input_worker.measure(replace(job(broken, Variant("batch", SETTINGS)), warm_up=0.5))


def test_a_worker_process_that_dies(artifact: Path) -> None:
    """The error says so, and what to do."""
    deadly = replace(job(artifact), task=Deadly())  # type: ignore[arg-type]

    with pytest.raises(PenstockError, match=r"died, possibly out of memory; free some memory, or lower input\.batch"):
        jobs.run(deadly)


@pytest.mark.all
def test_training_is_measured(artifact: Path) -> None:
    """Input, model and both, in a fresh process, on the records of an artifact."""
    shortest = replace(job(artifact), settings=Settings(input=SETTINGS))
    result = jobs.run_training(shortest)

    assert (result.facts.records, result.facts.batch_size, result.measured.device) == (40, 8, "CPU:0")
    assert min(result.measured.input_rate, result.measured.model_rate, result.measured.rate) > 0
    assert 0 <= result.measured.waiting <= 1
