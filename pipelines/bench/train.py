"""`penstock bench train TASK`: how fast the input and the model are alone and together, per device.

    input alone ─────────────────────────────────┐
    model alone, on a few batches in memory ─────┼─► samples per second, share of waiting ─► one-sentence verdict
    training loop: both ─────────────────────────┘

Each round is a fresh process. Weights are random, and nothing is saved. With GPUs, `train.devices=auto` is compared
with the CPU, and with one of them.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import typer

from components import diagnosis
from components.errors import SettingsError
from pipelines.bench.measurements import MeasureJob, RecordFacts, TrainMeasurement
from pipelines.bench.processes import jobs

_OTHERS = ("cpu", "one")  # for comparison with all GPUs: with one GPU the CPU, with several one of them too


@dataclass(frozen=True)
class TrainBench:
    """The median measurement of each choice of devices, and the verdict about the first one."""

    facts: RecordFacts
    cores: int
    devices: tuple[TrainMeasurement, ...]
    verdict: str


def bench(job: MeasureJob) -> TrainBench:
    """Measures the training of a task on the records of a job."""
    if job.settings.extract.model:
        raise SettingsError("bench train measures the task's own model; expected no extract.model: leave it out")
    typer.echo(f"measuring {job.artifact}, {job.rounds} rounds …", err=True)
    first = jobs.run_training(job)
    chosen = job.settings.train.devices
    others = _OTHERS[: first.gpus] if chosen == "auto" else ()
    devices = [_median(job, chosen, [first.measured]), *(_median(job, each) for each in others)]
    return TrainBench(first.facts, jobs.cores(), tuple(devices), verdict(devices[0]))


def verdict(measured: TrainMeasurement) -> str:
    """Returns whether the input limits the training: it must be slower than the model, and be waited for."""
    if measured.waiting < diagnosis.BOUND or measured.input_rate < measured.model_rate:
        return diagnosis.verdict(measured.waiting)
    return (
        f"not input-bound: the input alone is {measured.input_rate / measured.model_rate:.1f}x as fast as the model; "
        f"training waits {100 * measured.waiting:.0f} % of the time because both share the processor"
    )


def _median(job: MeasureJob, devices: str, done: Sequence[TrainMeasurement] = ()) -> TrainMeasurement:
    train = job.settings.train.model_copy(update={"devices": devices})
    there = replace(job, settings=job.settings.model_copy(update={"train": train}))
    return median([*done, *(jobs.run_training(there).measured for _ in range(job.rounds - len(done)))])


def median(rounds: Sequence[TrainMeasurement]) -> TrainMeasurement:
    """Returns the median of each figure."""
    names = ("input_rate", "model_rate", "rate", "waiting")
    return TrainMeasurement(
        rounds[0].device, *(statistics.median(getattr(each, name) for each in rounds) for name in names)
    )
