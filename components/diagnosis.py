"""Why a device waits for input, in one sentence: measured shares in, words out.

    waiting, stages, remedies ─► "input-bound 34 %: decoding is the limit; store at 256 px (2.2x) or use 4 cores"

`penstock bench input`, the trainer's progress line and the report share it. Every number in the sentence was measured
(`input_pipeline.probe`) or follows from one that was.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BOUND = 0.05  # a faster input does not help below this share of waiting: a device should be busy 95 % of the time
_ONE_LIMIT = 0.4  # share of the work above which a stage is called the limit
_WORTH = 1.1  # remedies with a smaller gain are not mentioned
_CACHED = ("read", "parse", "decode")
_DOING = {
    "read": "reading",
    "parse": "parsing",
    "decode": "decoding",
    "augment": "augmentation",
    "batch": "batching",
}


@dataclass(frozen=True)
class Stage:
    """The cost of one stage of the pipeline."""

    name: str  # read, parse, decode, augment, batch
    cpu_us: float  # per record


@dataclass(frozen=True)
class Remedy:
    """A change that makes the input faster."""

    what: str  # "store at 256 px"
    gain: float | None = None  # speed-up factor, if known


@dataclass(frozen=True)
class Demand:
    """Records per second that the device can use and the input can deliver."""

    device_rate: float
    input_rate: float  # without a device
    cores: int

    @property
    def factor(self) -> float:
        """The speed-up that the input would need."""
        return self.device_rate / self.input_rate


def differences(costs: Mapping[str, float]) -> tuple[Stage, ...]:
    """Returns what each stage adds to the stage before it, given the costs up to each."""
    before = [0.0, *costs.values()]
    return tuple(Stage(name, cost - earlier) for (name, cost), earlier in zip(costs.items(), before, strict=False))


def verdict(waiting: float, stages: Sequence[Stage] = (), remedies: Sequence[Remedy] = ()) -> str:
    """Returns the sentence.

    Args:
        waiting: fraction of the time in which the device waited for data.
        stages: their costs, if measured.
        remedies: what helps, the best first.
    """
    if waiting < BOUND:
        return f"not input-bound: the device waits {_percent(waiting)} of the time"
    parts = [f"input-bound {_percent(waiting)}: {limit(stages)}", _advice(remedies)]
    return "; ".join(filter(None, parts))


def renewed(sentence: str, waiting: float) -> str:
    """Returns a sentence with another share of waiting; the reason was measured once and stays."""
    if waiting < BOUND or ": " not in sentence:
        return verdict(waiting)
    return f"input-bound {_percent(waiting)}: {sentence.partition(': ')[2]}"


def limit(stages: Sequence[Stage]) -> str:
    """Returns the stage that limits the input, in words."""
    shares = shares_of(stages)
    if not shares:
        return "run `penstock bench input` to find the stage that is the limit"
    ranked = sorted(shares, key=lambda name: shares[name], reverse=True)
    if shares[ranked[0]] >= _ONE_LIMIT:
        return f"{_DOING.get(ranked[0], ranked[0])} is the limit"
    largest = ", ".join(f"{_DOING.get(name, name)} {_percent(shares[name])}" for name in ranked[:3])
    return f"no single stage is the limit ({largest})"


def shares_of(stages: Sequence[Stage]) -> dict[str, float]:
    """Returns each stage's fraction of the work. A measured cost below zero counts as zero."""
    costs = {stage.name: max(0.0, stage.cpu_us) for stage in stages}
    total = sum(costs.values())
    return {name: cost / total for name, cost in costs.items()} if total else {}


def remedies(
    stages: Sequence[Stage], demand: Demand, *, fits_in_memory: bool = False, measured: Sequence[Remedy] = ()
) -> tuple[Remedy, ...]:
    """Returns what helps: first the remedies that suffice, in the order given, then more cores, then the others.

    Args:
        stages: their costs.
        demand: of the device.
        fits_in_memory: whether the decoded records fit into the budget.
        measured: other settings and stored forms that were tried, with their gains.
    """
    shares = shares_of(stages)
    found = [remedy for remedy in measured if remedy.gain is not None and remedy.gain >= _WORTH]
    cached = 1 / max(0.01, 1 - sum(shares.get(name, 0.0) for name in _CACHED))
    if fits_in_memory and cached >= _WORTH:
        found.append(Remedy("input.cache=memory", cached))
    suffice = [remedy for remedy in found if remedy.gain is not None and remedy.gain >= demand.factor]
    others = sorted((remedy for remedy in found if remedy not in suffice), key=lambda each: -(each.gain or 0))
    cores = cores_for(stages, demand)
    more = [Remedy(f"use {cores} cores")] if cores > demand.cores else []
    return (*suffice, *more, *others)


def cores_for(stages: Sequence[Stage], demand: Demand) -> int:
    """Returns how many cores keep the device busy: its rate times the cost of a record."""
    cost = sum(max(0.0, stage.cpu_us) for stage in stages) / 1e6
    return math.ceil(demand.device_rate * cost)


def _advice(remedies: Sequence[Remedy]) -> str:
    return " or ".join(f"{each.what} ({each.gain:.1f}x)" if each.gain else each.what for each in remedies[:3])


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
