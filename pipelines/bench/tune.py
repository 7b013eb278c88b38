"""`penstock tune input TASK`: finds the fastest input settings for these records on this machine.

    current settings and each change alone, in turn ─► changes that gain more than the noise, combined
        ─► measured once more against the current settings ─► the faster ones go into the settings file

The search is bounded: single changes, then one combination. It only writes settings that affect speed, not results;
`order` is measured too, but used only if the user allows any order.
"""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from components.settings.input import Input
from pipelines.bench import jobs, locate, measurements, settings_file
from pipelines.bench.bench import cores
from pipelines.bench.measurements import Variant
from pipelines.bench.settings_file import Value
from pipelines.config import SETTINGS_FILE, RunConfig

CURRENT = "current settings"
_MIN_GAIN = 0.02  # smaller gains count as noise, however quiet the machine is
_FINAL_ROUNDS = 2  # times as many rounds as in the search
_WARM_UP = 0.5  # seconds
Log = Callable[[str], None]
Change = dict[str, Value]


@dataclass(frozen=True)
class TuneRequest:
    """How long to search, and where the result goes."""

    records: str | None = None
    settings_file: str | None = None
    rounds: int = 3
    seconds: float = 1.5
    any_order: bool = False  # batches may differ from run to run
    dry_run: bool = False


@dataclass(frozen=True)
class Candidate:
    """A change of settings, and what it was measured at."""

    change: Change
    rates: tuple[float, ...]  # samples per second in each round
    cpu_us: float  # per sample

    @property
    def name(self) -> str:
        """The difference from the current settings."""
        return ", ".join(f"{key}={value}" for key, value in self.change.items()) or CURRENT

    @property
    def rate(self) -> float:
        """The median rate."""
        return statistics.median(self.rates)


@dataclass(frozen=True)
class TuneResult:
    """What was measured, and what was done about it."""

    candidates: tuple[Candidate, ...]
    current: Candidate
    winner: Candidate | None  # None: nothing is faster than the current settings
    verdict: str


def tune(config: RunConfig, request: TuneRequest, log: Log) -> TuneResult:
    """Searches for faster settings, and writes them into the user's settings file."""
    artifact = locate.examples(config, request.records)
    tries = changes(config.settings.input, cores())
    log(f"measuring {artifact}: {len(tries) + 1} settings, {request.rounds} rounds …")
    current, *others = _measure(config, artifact, request, [{}, *tries], request.rounds)
    best = combined(current, [each for each in others if request.any_order or "order" not in each.change])
    if not best:
        verdict = "no change is faster than the current settings; nothing was written"
        return TuneResult((current, *others), current, None, verdict)
    log("measuring the best combination against the current settings …")
    current, winner = _measure(config, artifact, request, [{}, best], _FINAL_ROUNDS * request.rounds)
    candidates = (current, *(each for each in others if each.change != best), winner)
    if not beats(winner, current):
        verdict = f"{winner.name}: not faster than the current settings when measured again; nothing was written"
        return TuneResult(candidates, current, None, verdict)
    return TuneResult(candidates, current, winner, write(config, request, winner, current))


def changes(settings: Input, cores: int) -> list[Change]:
    """Returns the single changes to measure."""
    values: Mapping[str, Sequence[Value]] = {
        "parallel": (1, cores, 2 * cores),
        "interleave": (1, 4, 8, 16),
        "prefetch": (1, 2, 4, 8),
        "autotune": (True, False),
        "order": ("fastest", "exact"),
    }
    now = {**settings.model_dump(), "parallel": settings.parallel or cores}
    return [{key: value} for key, each in values.items() for value in dict.fromkeys(each) if value != now[key]]


def combined(current: Candidate, others: Sequence[Candidate]) -> Change:
    """Returns the fastest value of each setting that beats the current one, all in one change."""
    change: Change = {}
    for each in sorted(others, key=lambda each: each.rate):  # the fastest comes last and wins
        if beats(each, current):
            change |= each.change
    return change


def beats(one: Candidate, other: Candidate) -> bool:
    """Whether one is faster by more than the noise of either."""
    noise = max(_MIN_GAIN, _spread(one.rates), _spread(other.rates))
    return one.rate > (1 + noise) * other.rate


def write(config: RunConfig, request: TuneRequest, winner: Candidate, current: Candidate) -> str:
    """Writes the winner into the settings file, unless it is a dry run, and returns the verdict."""
    gain = f"{winner.name}: {winner.rate / current.rate:.2f}x the rate of the current settings"
    if request.dry_run:
        return f"{gain}; nothing was written (--dry-run)"
    path = Path(request.settings_file or os.environ.get("PENSTOCK_SETTINGS") or SETTINGS_FILE)
    settings_file.write(path, (config.task.name, "input"), winner.change)
    return f"{gain}; written to {path}"


def _spread(rates: Sequence[float]) -> float:
    """Returns half the range of the rates, relative to their median."""
    return (max(rates) - min(rates)) / 2 / statistics.median(rates)


def _measure(
    config: RunConfig, artifact: Path, request: TuneRequest, tries: Sequence[Change], rounds: int
) -> list[Candidate]:
    variants = [Variant("training", config.settings.input.model_copy(update=change)) for change in tries]
    job = replace(jobs.make(config, artifact, variants), rounds=rounds, warm_up=_WARM_UP, seconds=request.seconds)
    return [
        Candidate(change, tuple(each.rate for each in measured), measurements.median(measured).cpu_us)
        for change, measured in zip(tries, jobs.run(job).measured, strict=True)
    ]
