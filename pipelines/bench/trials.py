"""Trials in a process of their own: the parent stays light, and a trial begins with nothing of another's in memory.

    Order (JSON on standard input) ─► python -m pipelines.bench.child ─► Answer: facts, figures by trial and round

Trials of one order take turns, round by round, so that a machine that is busy for a while is busy for all of them.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from components.errors import BadInput, PenstockError
from components.settings.ingest import Ingest
from components.settings.input import Input
from pipelines.config import RunConfig

MARK = "measured:"
_TAIL = 2000  # characters of what a child said before it died


@dataclass(frozen=True)
class Trial:
    """One way to read the records."""

    kind: str  # training, tutorial, a stage, or stored (images as `ingest` tells)
    artifact: str
    settings: dict[str, Any]  # of the input
    ingest: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """What a child is to measure."""

    task: str
    seed: int
    trials: tuple[Trial, ...]
    rounds: int = 1
    warm_up: float = 1.0  # seconds
    seconds: float = 3.0
    device_rate: float = 0.0  # samples a second of a simulated device; 0: none
    device_share: float = 0.0  # or as a part of what the input can give
    graph: str = ""  # what Transform fitted, for a task that reads by it
    transform: dict[str, Any] = field(default_factory=dict)  # its settings


@dataclass(frozen=True)
class Figures:
    """What one trial came to in one round."""

    rate: float
    cpu_us: float
    others: float  # share of the machine that other processes used
    first_batch: float  # seconds
    wait_p50: float
    wait_p99: float
    peak_mb: float
    utilisation: float = 0.0
    stall_p50: float = 0.0
    stall_p99: float = 0.0


@dataclass(frozen=True)
class Facts:
    """What a child knows of the records of its first trial."""

    records: int
    bytes: int
    decoders: tuple[str, ...]
    cache_mb: float  # what they take when they are decoded
    images: str  # column of images, if there is one


@dataclass(frozen=True)
class Answer:
    """What a child has found."""

    facts: Facts
    trials: tuple[tuple[Figures, ...], ...]  # of each trial, round by round

    def medians(self) -> list[Figures]:
        """Returns the median of each figure, a trial."""
        return [median(each) for each in self.trials]


def median(rounds: Sequence[Figures]) -> Figures:
    """Returns the median of each figure."""
    values = [asdict(each) for each in rounds]
    return Figures(**{key: statistics.median(each[key] for each in values) for key in values[0]})


def run(order: Order) -> Answer:
    """Lets a child measure."""
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.bench.child"],
        input=json.dumps(asdict(order)),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        raise PenstockError(f"a process that measures died:\n{done.stderr[-_TAIL:].strip()}")
    found = json.loads(lines[-1].removeprefix(MARK))
    if "bad" in found:
        raise BadInput(found["bad"])
    facts = Facts(**{**found["facts"], "decoders": tuple(found["facts"]["decoders"])})
    return Answer(facts, tuple(tuple(Figures(**each) for each in rounds) for rounds in found["trials"]))


def order(config: RunConfig, tries: tuple[Trial, ...], graph: Path | None, **how: Any) -> Order:
    """Returns an order for a task's records."""
    settings = config.settings
    told = {"graph": str(graph or ""), "transform": settings.section("transform"), **how}
    return Order(config.task.name, settings.train.seed, tries, **told)


def order_of(text: str) -> Order:
    """Reads an order back."""
    given = json.loads(text)
    return Order(**{**given, "trials": tuple(Trial(**trial) for trial in given["trials"])})


def told(answer: Answer) -> str:
    """Returns what a child says to its parent."""
    return f"{MARK} {json.dumps(asdict(answer))}"


def refused(reason: str) -> str:
    """Returns how a child says that the records cannot be read."""
    return f"{MARK} {json.dumps({'bad': reason})}"


def trial(kind: str, artifact: Path, settings: Input, ingest: Ingest | None = None) -> Trial:
    """Returns a trial with these settings."""
    stored = ingest.model_dump(mode="json") if ingest else {}
    return Trial(kind, str(artifact), settings.model_dump(mode="json"), stored)
