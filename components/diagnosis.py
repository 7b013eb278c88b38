"""Why a device waits, in one sentence: measured shares in, words out.

    waiting, stages, remedies ─► "input-bound 34 %: decoding is the limit; store at 256 px (2.2x) or use 4 cores"

The same for `penstock bench input`, for the trainer's progress line and for the report. Every figure in the sentence
was measured, or follows from one that was: nothing is assumed about any stage, data or machine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

BOUND = 0.05  # a device that waits less than this is not worth an effort: 95 % is the bar for ours
_ONE_LIMIT = 0.4  # share of the work from which on a stage is called the limit
_WORTH = 1.1  # a remedy that gains less is not worth a word
_KEPT_BY_CACHE = ("read", "parse", "decode")
_DOING = {
    "read": "reading",
    "parse": "parsing",
    "decode": "decoding",
    "augment": "augmentation",
    "batch": "batching",
}


@dataclass(frozen=True)
class Stage:
    """What one stage of the pipeline costs."""

    name: str  # read, parse, decode, augment, batch
    cpu_us: float  # a sample


@dataclass(frozen=True)
class Remedy:
    """What would make the input faster."""

    what: str  # "store at 256 px"
    gain: float | None = None  # so many times as fast, where it is known


@dataclass(frozen=True)
class Demand:
    """What the device takes, and what the input can give."""

    device_rate: float  # samples a second
    input_rate: float  # free-running
    cores: int

    @property
    def factor(self) -> float:
        """How many times as fast the input would have to be."""
        return self.device_rate / self.input_rate


def verdict(waiting: float, stages: Sequence[Stage] = (), remedies: Sequence[Remedy] = ()) -> str:
    """Returns the sentence.

    Args:
        waiting: fraction of the time in which the device waited for data.
        stages: what they cost, where it was measured.
        remedies: what would help, the best first.
    """
    if waiting < BOUND:
        return f"not input-bound: the device waits {_percent(waiting)} of the time"
    parts = [f"input-bound {_percent(waiting)}: {limit(stages)}", _advice(remedies)]
    return "; ".join(filter(None, parts))


def renewed(told: str, waiting: float) -> str:
    """Returns a sentence with another share of waiting; the reason was measured once and stays."""
    if waiting < BOUND or ": " not in told:
        return verdict(waiting)
    return f"input-bound {_percent(waiting)}: {told.partition(': ')[2]}"


def limit(stages: Sequence[Stage]) -> str:
    """Returns which stage holds the others up."""
    shares = shares_of(stages)
    if not shares:
        return "`penstock bench input` finds the stage that is the limit"
    ranked = sorted(shares, key=lambda name: shares[name], reverse=True)
    if shares[ranked[0]] >= _ONE_LIMIT:
        return f"{_DOING.get(ranked[0], ranked[0])} is the limit"
    told = ", ".join(f"{_DOING.get(name, name)} {_percent(shares[name])}" for name in ranked[:3])
    return f"no single stage is the limit ({told})"


def shares_of(stages: Sequence[Stage]) -> dict[str, float]:
    """Returns each stage's part of the work. What costs less than the stage before it costs nothing."""
    costs = {stage.name: max(0.0, stage.cpu_us) for stage in stages}
    total = sum(costs.values())
    return {name: cost / total for name, cost in costs.items()} if total else {}


def remedies(
    stages: Sequence[Stage], demand: Demand, *, fits_in_memory: bool = False, measured: Sequence[Remedy] = ()
) -> tuple[Remedy, ...]:
    """Returns what would help: first what suffices, of that the cheapest first.

    Args:
        stages: what they cost.
        demand: of the device.
        fits_in_memory: whether the decoded records do, within the budget.
        measured: other settings and other stored forms that were tried, and what they gained.
    """
    shares = shares_of(stages)
    found = [remedy for remedy in measured if remedy.gain is not None and remedy.gain >= _WORTH]
    cached = 1 / max(0.01, 1 - sum(shares.get(name, 0.0) for name in _KEPT_BY_CACHE))
    if fits_in_memory and cached >= _WORTH:
        found.append(Remedy("input.cache=memory", cached))
    suffice = [remedy for remedy in found if remedy.gain is not None and remedy.gain >= demand.factor]
    others = sorted((remedy for remedy in found if remedy not in suffice), key=lambda each: -(each.gain or 0))
    cores = cores_for(stages, demand)
    more = [Remedy(f"use {cores} cores")] if cores > demand.cores else []
    return (*suffice, *more, *others)


def cores_for(stages: Sequence[Stage], demand: Demand) -> int:
    """Returns how many cores give the device all it takes: its rate times what a sample costs."""
    cost = sum(max(0.0, stage.cpu_us) for stage in stages) / 1e6
    return math.ceil(demand.device_rate * cost)


def _advice(remedies: Sequence[Remedy]) -> str:
    told = [f"{each.what} ({each.gain:.1f}x)" if each.gain else each.what for each in remedies[:3]]
    return " or ".join(told)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
