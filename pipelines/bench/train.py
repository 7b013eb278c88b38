"""`penstock bench train TASK`: how fast the input and the model are alone and together, per device.

    input alone ─────────────────────────────────┐
    model alone, on a few batches in memory ─────┼─► samples per second, share of waiting ─► one-sentence verdict
    training loop: both ─────────────────────────┘

Each round of each device is a fresh process. Weights are random, and nothing is saved.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import typer

from components import diagnosis
from components.errors import SettingsError
from pipelines.bench import jobs
from pipelines.bench.measurements import MeasureJob, RecordFacts, TrainMeasurement


@dataclass(frozen=True)
class TrainBench:
    """The median measurement of each device, and the verdict about the last one."""

    facts: RecordFacts
    cores: int
    devices: tuple[TrainMeasurement, ...]
    verdict: str


def bench(job: MeasureJob) -> TrainBench:
    """Measures the training of a task on the records of a job."""
    if job.settings.extract.model:
        raise SettingsError("bench train measures the task's own model; expected no extract.model: leave it out")
    typer.echo(f"measuring {job.artifact}, {job.rounds} rounds …", err=True)
    rounds = [jobs.run_training(job) for _ in range(job.rounds)]
    measured = median([each.measured for each in rounds])
    return TrainBench(rounds[0].facts, jobs.cores(), (measured,), diagnosis.verdict(measured.waiting))


def median(rounds: Sequence[TrainMeasurement]) -> TrainMeasurement:
    """Returns the median of each figure."""
    names = ("input_rate", "model_rate", "rate", "waiting")
    return TrainMeasurement(
        rounds[0].device, *(statistics.median(getattr(each, name) for each in rounds) for name in names)
    )
