"""`penstock bench input TASK`: how fast records reach a device, which stage is the limit, and what would help.

Penstock, tutorial (in turn) ─────┐
stage after stage ────────────────┼─► waiting, cost per stage, remedies ─► one-sentence verdict
images stored smaller, if needed ─┘
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from components import diagnosis
from components.diagnosis import Demand, Remedy, Stage
from components.errors import BadInput
from components.records import manifest
from pipelines.bench import accelerators, jobs, locate, measurements
from pipelines.bench.accelerators import Accelerator
from pipelines.bench.measurements import MeasureJob, Measurement, RecordFacts, Variant
from pipelines.config import RunConfig

STAGES = ("read", "parse", "decode", "augment", "batch")
SIMULATED_SHARE = 0.9  # of the measured rate, if no device is named
_WORTH_STORING = 1.2  # images must be this many times larger than `ingest.store_side`
Log = Callable[[str], None]


@dataclass(frozen=True)
class BenchRequest:
    """What to measure, and for how long."""

    records: str | None = None  # Examples artifact; default: the newest
    accelerator: str | None = None
    rounds: int = 3
    seconds: float = 3.0


@dataclass(frozen=True)
class BenchResult:
    """The measurements and the verdict."""

    facts: RecordFacts
    batch_size: int
    cores: int
    ours: Measurement
    tutorial: Measurement | None  # None: the tutorial code cannot read these records
    stages: tuple[Stage, ...]
    device: Accelerator | None
    verdict: str


def bench(config: RunConfig, request: BenchRequest, log: Log) -> BenchResult:
    """Measures the input pipeline of a task."""
    device = accelerators.parse(request.accelerator) if request.accelerator else None
    artifact = locate.examples(config, request.records)
    log(f"measuring {artifact}, {request.rounds} rounds …")
    ours, tutorial, facts = _compare(config, artifact, request, device)
    log("measuring each stage …")
    stages = _stages(config, artifact, request)
    if device is None:
        verdict = f"{diagnosis.limit(stages)}; with --accelerator, it also says how long a device would wait"
    else:
        remedies: tuple[Remedy, ...] = ()
        if 1 - ours.utilisation >= diagnosis.BOUND:
            log("the device waits for data; measuring what would help …")
            smaller = _stored_smaller(config, artifact, request, facts, ours)
            settings = config.settings.input
            cacheable = facts.cache_mb < settings.ram_mb and settings.cache == "none"
            demand = Demand(device.rate, ours.rate, cores())
            remedies = diagnosis.remedies(stages, demand, fits_in_memory=cacheable, measured=smaller)
        verdict = diagnosis.verdict(1 - ours.utilisation, stages, remedies)
    batch_size = config.settings.input.batch_size
    return BenchResult(facts, batch_size, cores(), ours, tutorial, stages, device, verdict)


def differences(costs: dict[str, float]) -> tuple[Stage, ...]:
    """Returns what each stage adds to the cost of the stage before it."""
    before = [0.0, *costs.values()]
    return tuple(Stage(name, cost - earlier) for (name, cost), earlier in zip(costs.items(), before, strict=False))


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _compare(
    config: RunConfig, artifact: Path, request: BenchRequest, device: Accelerator | None
) -> tuple[Measurement, Measurement | None, RecordFacts]:
    """Measures Penstock and the tutorial code in turn, each round in a fresh process."""
    ours_job = replace(
        _job(config, artifact, ["training"], request.seconds),
        device_rate=device.rate if device else 0.0,
        device_share=0.0 if device else SIMULATED_SHARE,
    )
    tutorial_job = _job(config, artifact, ["tutorial"], request.seconds)
    ours: list[Measurement] = []
    tutorial: list[Measurement] = []
    for _ in range(request.rounds):
        result = jobs.run(ours_job)
        ours += result.measured[0]
        tutorial += _tutorial(tutorial_job)
    return measurements.median(ours), measurements.median(tutorial) if tutorial else None, result.facts


def _tutorial(job: MeasureJob) -> tuple[Measurement, ...]:
    try:
        return jobs.run(job).measured[0]
    except BadInput:  # raw pixels, or another format that the tutorial code cannot decode
        return ()


def _stages(config: RunConfig, artifact: Path, request: BenchRequest) -> tuple[Stage, ...]:
    # CPU costs are compared, not rates: half the time is enough.
    job = replace(_job(config, artifact, STAGES, request.seconds / 2), rounds=request.rounds)
    medians = jobs.run(job).medians()
    return differences({name: each.cpu_us for name, each in zip(STAGES, medians, strict=True)})


def _stored_smaller(
    config: RunConfig, artifact: Path, request: BenchRequest, facts: RecordFacts, ours: Measurement
) -> tuple[Remedy, ...]:
    """Measures what `ingest.store` would gain, on some of the records."""
    ingest = config.settings.ingest
    if not facts.images or manifest.read(artifact).median_side < _WORTH_STORING * ingest.store_side:
        return ()
    names = {"jpeg": f"store at {ingest.store_side} px", "raw": f"store raw at {ingest.store_side} px"}
    stored = [ingest.model_copy(update={"store": store}) for store in names]
    variants = tuple(Variant("stored", config.settings.input, each) for each in stored)
    job = replace(_job(config, artifact, (), request.seconds / 2), variants=variants, rounds=request.rounds)
    medians = jobs.run(job).medians()
    return tuple(Remedy(name, ours.cpu_us / each.cpu_us) for name, each in zip(names.values(), medians, strict=True))


def _job(config: RunConfig, artifact: Path, kinds: Sequence[str], seconds: float) -> MeasureJob:
    variants = [Variant(kind, config.settings.input) for kind in kinds]
    return replace(jobs.make(config, artifact, variants), seconds=seconds)
