"""Runs each contender in a process of its own, in turn, and compares medians.

round 1: ours, stock    round 2: ours, stock    …    so that a busy machine is busy for all
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_MARK = "measured:"


@dataclass(frozen=True)
class Measured:
    """What one run of one contender took."""

    seconds: float  # of the work alone: imports and set-up of the process are not in it
    peak_mb: float


def in_turn(contenders: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Measured]]:
    """Runs every contender `rounds` times, one after another within each round."""
    results: dict[str, list[Measured]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, arguments in contenders.items():
            results[name].append(_run(arguments))
            print(f"round {number + 1} {name}: {results[name][-1].seconds:.2f} s", file=sys.stderr)
    return results


def report(work: Callable[[], object]) -> None:
    """Does the work in this process and tells the parent what it took."""
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    # With the largest of the processes that it started and that have ended.
    peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    print(_MARK, json.dumps({"seconds": seconds, "peak_mb": peak}))


def median(runs: Sequence[Measured]) -> Measured:
    """Returns the median time, and the highest peak."""
    return Measured(statistics.median(run.seconds for run in runs), max(run.peak_mb for run in runs))


def _run(arguments: Sequence[str]) -> Measured:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not lines:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return Measured(**json.loads(lines[-1].removeprefix(_MARK)))
