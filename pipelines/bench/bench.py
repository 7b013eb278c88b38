"""`penstock bench input TASK`: how fast the records reach a device, what holds them up, what would help.

ours, tutorial (fresh processes, in turn) ─┐
stage after stage ─────────────────────────┼─► waiting, shares, remedies ─► one sentence
images stored smaller, if it waits ──────┘
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from components.errors import BadInput
from components.input_pipeline import diagnosis
from components.input_pipeline.diagnosis import Demand, Remedy, Stage
from components.records import manifest
from pipelines.bench import accelerators, records, trials
from pipelines.bench.accelerators import Accelerator
from pipelines.bench.trials import Facts, Figures, Order
from pipelines.config import RunConfig

STAGES = ("read", "parse", "decode", "augment", "batch")
SIMULATED_AT = 0.9  # of its own rate, where no device is named
_SMALLER = 1.2  # images must be so many times as large as they would be stored to be worth a trial
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What is to be measured, and how thoroughly."""

    records: str | None = None  # artifact; none: the newest of the root
    accelerator: str | None = None
    rounds: int = 3
    seconds: float = 3.0


@dataclass(frozen=True)
class Result:
    """What was found."""

    artifact: Path
    facts: Facts
    batch_size: int
    cores: int
    ours: Figures
    tutorial: Figures | None  # none: it cannot read these records
    stages: tuple[Stage, ...]
    device: Accelerator | None
    verdict: str


def bench(config: RunConfig, wish: Wish, say: Say) -> Result:
    """Measures the input of a pipeline."""
    device = accelerators.of(wish.accelerator) if wish.accelerator else None
    artifact = records.find(config, wish.records)
    say(f"measuring {artifact}, {wish.rounds} rounds …")
    ours, theirs, facts = _in_turn(config, artifact, wish, device)
    say("measuring stage by stage …")
    stages = _stages(config, artifact, wish)
    helps: tuple[Remedy, ...] = ()
    if device and 1 - ours.utilisation >= diagnosis.BOUND:
        say("the device waits; measuring what would help …")
        tried = _stored_smaller(config, artifact, wish, facts, ours)
        demand = Demand(device.rate, ours.rate, cores())
        fits = facts.cache_mb < config.settings.input.ram_mb and config.settings.input.cache == "none"
        helps = diagnosis.remedies(stages, demand, fits_in_memory=fits, measured=tried)
    return Result(
        artifact=artifact,
        facts=facts,
        batch_size=config.settings.input.batch_size,
        cores=cores(),
        ours=ours,
        tutorial=theirs,
        stages=stages,
        device=device,
        verdict=_verdict(ours, stages, helps, device),
    )


def differences(costs: dict[str, float]) -> tuple[Stage, ...]:
    """Returns what each stage adds to the one before it."""
    before = [0.0, *costs.values()]
    return tuple(Stage(name, cost - earlier) for (name, cost), earlier in zip(costs.items(), before, strict=False))


def cores() -> int:
    """Returns how many this process may use."""
    return len(os.sched_getaffinity(0))


def _verdict(ours: Figures, stages: tuple[Stage, ...], helps: tuple[Remedy, ...], device: Accelerator | None) -> str:
    if device:
        return diagnosis.verdict(1 - ours.utilisation, stages, helps)
    return f"{diagnosis.limit(stages)}; --accelerator tells whether a device would wait"


def _in_turn(
    config: RunConfig, artifact: Path, wish: Wish, device: Accelerator | None
) -> tuple[Figures, Figures | None, Facts]:
    """Measures ours and the tutorial way, each in a process of its own, round by round."""
    rate, share = (device.rate, 0.0) if device else (0.0, SIMULATED_AT)
    ours = replace(_order(config, artifact, ["training"], wish.seconds), device_rate=rate, device_share=share)
    mine: list[Figures] = []
    theirs: list[Figures] = []
    for _ in range(wish.rounds):
        answer = trials.run(ours)
        mine += answer.trials[0]
        theirs += _tutorial(_order(config, artifact, ["tutorial"], wish.seconds))
    return trials.median(mine), trials.median(theirs) if theirs else None, answer.facts


def _tutorial(order: Order) -> tuple[Figures, ...]:
    try:
        return trials.run(order).trials[0]
    except BadInput:  # raw pixels, or another form that it does not know
        return ()


def _stages(config: RunConfig, artifact: Path, wish: Wish) -> tuple[Stage, ...]:
    # Costs are compared, not rates: half the time is enough.
    order = _order(config, artifact, STAGES, wish.seconds / 2)
    found = trials.run(replace(order, rounds=wish.rounds)).medians()
    return differences({name: figures.cpu_us for name, figures in zip(STAGES, found, strict=True)})


def _stored_smaller(config: RunConfig, artifact: Path, wish: Wish, facts: Facts, ours: Figures) -> tuple[Remedy, ...]:
    """Tries what `ingest.store` would gain, on some of the records."""
    ingest = config.settings.ingest
    if not facts.images or manifest.read(artifact).median_side < _SMALLER * ingest.store_side:
        return ()
    words = {"jpeg": f"store at {ingest.store_side} px", "raw": f"store raw at {ingest.store_side} px"}
    stored = [ingest.model_copy(update={"store": store}) for store in words]
    order = _order(config, artifact, ["training"], wish.seconds / 2)
    tries = [trials.trial("stored", artifact, config.settings.input, each) for each in stored]
    found = trials.run(replace(order, trials=tuple(tries), rounds=wish.rounds)).medians()
    return tuple(Remedy(what, ours.cpu_us / each.cpu_us) for what, each in zip(words.values(), found, strict=True))


def _order(config: RunConfig, artifact: Path, kinds: Sequence[str], seconds: float) -> Order:
    tries = tuple(trials.trial(kind, artifact, config.settings.input) for kind in kinds)
    return trials.order(config, tries, records.graph(config, artifact), seconds=seconds)
