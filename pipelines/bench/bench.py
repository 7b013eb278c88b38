"""`penstock bench input TASK`: how fast records reach a device, which stage is the limit, and what would help.

Penstock, tutorial (in turn) ─────┐
stage after stage ────────────────┼─► waiting, cost per stage, remedies ─► one-sentence verdict
images stored smaller, if needed ─┘
"""

from dataclasses import dataclass, replace

import typer

from components import diagnosis
from components.diagnosis import Demand, Remedy, Stage
from components.errors import BadInput
from components.records import manifest
from pipelines.bench import measurements
from pipelines.bench.accelerators import Accelerator
from pipelines.bench.measurements import STAGES, TUTORIAL, MeasureJob, Measurement, RecordFacts, Variant
from pipelines.bench.processes import jobs

SIMULATED_SHARE = 0.9  # of the measured rate, if no device is named
_WORTH_STORING = 1.2  # images must be this many times larger than `ingest.store_side`


@dataclass(frozen=True)
class BenchResult:
    """The measurements and the verdict."""

    facts: RecordFacts
    cores: int
    ours: Measurement
    tutorial: Measurement | None  # None: the tutorial code cannot read these records
    stages: tuple[Stage, ...]
    device: Accelerator | None
    verdict: str


def bench(job: MeasureJob, device: Accelerator | None) -> BenchResult:
    """Measures the input pipeline of a task on the records of a job."""
    typer.echo(f"measuring {job.artifact}, {job.rounds} rounds …", err=True)
    ours, tutorial, facts = _compare(job, device)
    typer.echo("measuring each stage …", err=True)
    half = replace(job, seconds=job.seconds / 2)  # CPU costs are compared, not rates: half the time is enough
    costs = _costs(half, [Variant(stage, job.settings.input) for stage in STAGES])
    stages = diagnosis.differences(dict(zip(STAGES, costs, strict=True)))
    cores = jobs.cores()
    if device is None:
        verdict = f"{diagnosis.limit(stages)}; with --accelerator, it also says how long a device would wait"
    else:
        remedies: tuple[Remedy, ...] = ()
        if 1 - ours.utilisation >= diagnosis.BOUND:
            typer.echo("the device waits for data; measuring what would help …", err=True)
            settings = job.settings.input
            remedies = diagnosis.remedies(
                stages,
                Demand(device.rate, ours.rate, cores),
                fits_in_memory=facts.cache_mb < settings.ram_mb and settings.cache == "none",
                measured=_stored_smaller(half, facts, ours),
            )
        verdict = diagnosis.verdict(1 - ours.utilisation, stages, remedies)
    return BenchResult(facts, cores, ours, tutorial, stages, device, verdict)


def _compare(job: MeasureJob, device: Accelerator | None) -> tuple[Measurement, Measurement | None, RecordFacts]:
    """Measures Penstock and the tutorial code in turn, each round in a fresh process."""
    once = replace(job, rounds=1)
    simulated = replace(once, device_rate=device.rate) if device else replace(once, device_share=SIMULATED_SHARE)
    ours_job = replace(simulated, variants=(Variant(STAGES[-1], job.settings.input),))
    tutorial_job = replace(once, variants=(Variant(TUTORIAL, job.settings.input),))
    ours: list[Measurement] = []
    tutorial: list[Measurement] = []
    for _ in range(job.rounds):
        result = jobs.run(ours_job)
        ours += result.measured[0]
        tutorial += _tutorial(tutorial_job)
    return measurements.median(ours), measurements.median(tutorial) if tutorial else None, result.facts


def _tutorial(job: MeasureJob) -> tuple[Measurement, ...]:
    try:
        return jobs.run(job).measured[0]
    except BadInput:  # raw pixels, or another format that the tutorial code cannot decode
        return ()


def _stored_smaller(job: MeasureJob, facts: RecordFacts, ours: Measurement) -> tuple[Remedy, ...]:
    """Measures what `ingest.store` would gain, on some of the records."""
    ingest = job.settings.ingest
    if not facts.images or manifest.read(job.artifact).median_side < _WORTH_STORING * ingest.store_side:
        return ()
    names = {"jpeg": f"store at {ingest.store_side} px", "raw": f"store raw at {ingest.store_side} px"}
    stored = [ingest.model_copy(update={"store": store}) for store in names]
    costs = _costs(job, [Variant(STAGES[-1], job.settings.input, each) for each in stored])
    return tuple(Remedy(name, ours.cpu_us / cost) for name, cost in zip(names.values(), costs, strict=True))


def _costs(job: MeasureJob, variants: list[Variant]) -> list[float]:
    return [each.cpu_us for each in jobs.run(replace(job, variants=tuple(variants))).medians()]
