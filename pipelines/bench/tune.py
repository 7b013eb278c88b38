"""`penstock tune input TASK`: which settings are fastest on this machine, with these records?

    current and each change alone, in turn ─► changes that gain more than the noise ─► all of them together
            ─► a duel with the current settings ─► the winner into the user's file

The search is bounded: one change at a time, then one combination. What is written is settings that change speed alone:
`order` is tried as well, but only taken where the user says that any order will do.
"""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.settings.input import Input
from pipelines.bench import overlay, records, trials
from pipelines.bench.bench import cores
from pipelines.bench.overlay import Value
from pipelines.bench.trials import Answer
from pipelines.config import SETTINGS_FILE, RunConfig

CURRENT = "current settings"
_LEAST_NOISE = 0.02  # a gain below it is none, however calm the machine seems
_DUEL = 2  # times as many rounds as the search
Say = Callable[[str], None]
Change = dict[str, Value]


@dataclass(frozen=True)
class Wish:
    """How thoroughly to search, and where the result goes."""

    records: str | None = None
    settings_file: str | None = None
    rounds: int = 3
    seconds: float = 1.5
    any_order: bool = False  # whether batches may differ from run to run
    dry_run: bool = False


@dataclass(frozen=True)
class Tried:
    """One set of settings, and what it came to."""

    change: Change
    rates: tuple[float, ...]  # samples a second, round by round
    cpu_us: float

    @property
    def name(self) -> str:
        """What differs from the current settings."""
        return ", ".join(f"{key}={value}" for key, value in self.change.items()) or CURRENT

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates)


@dataclass(frozen=True)
class Tuned:
    """What was found."""

    tried: tuple[Tried, ...]
    current: Tried
    winner: Tried | None  # none: nothing beats the current settings
    verdict: str


def tune(config: RunConfig, wish: Wish, say: Say) -> Tuned:
    """Searches, and writes what is faster into the user's settings file."""
    artifact = records.find(config, wish.records)
    tries = changes(config.settings.input, cores())
    say(f"measuring {artifact}: {len(tries) + 1} settings, {wish.rounds} rounds …")
    current, *others = _try(config, artifact, wish, [{}, *tries], wish.rounds)
    together = combined(current, [each for each in others if wish.any_order or "order" not in each.change])
    if not together:
        return Tuned((current, *others), current, None, "nothing beats the current settings; nothing was written")
    say("the best of them against the current settings …")
    current, winner = _try(config, artifact, wish, [{}, together], _DUEL * wish.rounds)
    tried = (current, *(each for each in others if each.change != together), winner)
    if not beats(winner, current):
        return Tuned(tried, current, None, f"{winner.name}: no more than noise in a duel; nothing was written")
    return Tuned(tried, current, winner, _written(config, wish, winner, current))


def changes(settings: Input, cores: int) -> list[Change]:
    """Returns the single changes that are tried."""
    ladders: Mapping[str, Sequence[Value]] = {
        "parallel": (1, cores, 2 * cores),
        "interleave": (1, 4, 8, 16),
        "prefetch": (1, 2, 4, 8),
        "autotune": (True, False),
        "order": ("fastest", "exact"),
    }
    now = settings.model_dump()
    now["parallel"] = settings.parallel or cores
    return [{key: value} for key, ladder in ladders.items() for value in dict.fromkeys(ladder) if value != now[key]]


def combined(current: Tried, others: Sequence[Tried]) -> Change:
    """Returns the best value of each setting where one beats the current, all of them together."""
    best: dict[str, Tried] = {}
    for each in others:
        (key,) = each.change
        if beats(each, current) and (key not in best or each.rate > best[key].rate):
            best[key] = each
    return {key: value for each in best.values() for key, value in each.change.items()}


def beats(one: Tried, other: Tried) -> bool:
    """Whether one is faster by more than either differs from itself."""
    noise = max(_LEAST_NOISE, _spread(one.rates), _spread(other.rates))
    return one.rate > (1 + noise) * other.rate


def _spread(rates: Sequence[float]) -> float:
    """Returns how far rates lie from their median, at most half of their range."""
    return (max(rates) - min(rates)) / 2 / statistics.median(rates)


def _try(config: RunConfig, artifact: Path, wish: Wish, tries: Sequence[Change], rounds: int) -> list[Tried]:
    settings = [config.settings.input.model_copy(update=change) for change in tries]
    answer: Answer = trials.run(
        trials.order(
            config,
            tuple(trials.trial("training", artifact, each) for each in settings),
            records.graph(config, artifact),
            rounds=rounds,
            warm_up=0.5,
            seconds=wish.seconds,
        )
    )
    return [
        Tried(change, tuple(each.rate for each in found), trials.median(found).cpu_us)
        for change, found in zip(tries, answer.trials, strict=True)
    ]


def _written(config: RunConfig, wish: Wish, winner: Tried, current: Tried) -> str:
    gain = f"{winner.name}: {winner.rate / current.rate:.2f}x the current settings"
    if wish.dry_run:
        return f"{gain}; nothing was written (--dry-run)"
    path = Path(wish.settings_file or os.environ.get("PENSTOCK_SETTINGS") or SETTINGS_FILE)
    overlay.write(path, (config.task.name, "input"), winner.change)
    return f"{gain}; written to {path}"
