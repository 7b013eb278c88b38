"""`penstock tune input TASK`: finds the fastest input settings for these records on this machine.

    current settings and each change alone, in turn ─► changes that gain more than the noise, combined
        ─► measured again against the current settings ─► the faster ones go into the settings file

The search is bounded: single changes, then one combination. It only writes settings that affect speed, not results;
`order` is measured too, but used only if the user allows any order.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from components.settings.input import Input
from pipelines.bench import measurements, settings_file
from pipelines.bench.measurements import STAGES, MeasureJob, Variant
from pipelines.bench.processes import jobs
from pipelines.bench.settings_file import Value
from pipelines.config import SETTINGS_FILE

CURRENT = "current settings"
_MIN_GAIN = 0.02  # smaller gains count as noise, however quiet the machine is
_FINAL_ROUNDS = 2  # times as many rounds as in the search
_WARM_UP = 0.5  # seconds
Change = dict[str, Value]


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
    verdict: str


def tune(job: MeasureJob, *, file: str | None = None, any_order: bool = False, dry_run: bool = False) -> TuneResult:
    """Searches for faster settings, and writes them into the user's settings file.

    Args:
        job: the records, and how long each measurement takes.
        file: the user's settings file, if it is not the default one.
        any_order: whether batches may differ from run to run.
        dry_run: whether nothing is written.
    """
    tries = changes(job.settings.input, jobs.cores())
    typer.echo(f"measuring {job.artifact}: {len(tries) + 1} settings, {job.rounds} rounds …", err=True)
    current, *others = _measure(job, [{}, *tries])
    best = combined(current, [each for each in others if any_order or "order" not in each.change])
    if not best:
        verdict = "no change is faster than the current settings; nothing was written"
        return TuneResult((current, *others), current, verdict)
    typer.echo("measuring the best combination against the current settings …", err=True)
    current, winner = _measure(replace(job, rounds=_FINAL_ROUNDS * job.rounds), [{}, best])
    candidates = (current, *(each for each in others if each.change != best), winner)
    if beats(winner, current):
        gain = f"{winner.name}: {winner.rate / current.rate:.2f}x the rate of the current settings"
        verdict = f"{gain}; {_write(job.task, file, winner.change, dry_run=dry_run)}"
    else:
        verdict = f"{winner.name}: not faster than the current settings when measured again; nothing was written"
    return TuneResult(candidates, current, verdict)


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


def _write(task: str, file: str | None, change: Change, *, dry_run: bool) -> str:
    if dry_run:
        return "nothing was written (--dry-run)"
    path = Path(file or os.environ.get("PENSTOCK_SETTINGS") or SETTINGS_FILE)
    settings_file.write(path, (task, "input"), change)
    return f"written to {path}"


def _spread(rates: Sequence[float]) -> float:
    """Returns half the range of the rates, relative to their median."""
    return (max(rates) - min(rates)) / 2 / statistics.median(rates)


def _measure(job: MeasureJob, tries: Sequence[Change]) -> list[Candidate]:
    variants = [Variant(STAGES[-1], job.settings.input.model_copy(update=change)) for change in tries]
    result = jobs.run(replace(job, variants=tuple(variants), warm_up=_WARM_UP))
    return [
        Candidate(change, tuple(each.rate for each in measured), measurements.median(measured).cpu_us)
        for change, measured in zip(tries, result.measured, strict=True)
    ]
