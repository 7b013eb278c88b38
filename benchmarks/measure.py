"""Run each contender in its own process, in turn, and compare medians.

round 1: ours, stock    round 2: ours, stock    …    so that a busy machine slows all of them
"""

import contextlib
import json
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MARK = "measured:"
_LOOK = 0.1  # seconds


@dataclass(frozen=True)
class Measured:
    """Time and memory of one run."""

    seconds: float  # of the work alone: imports and set-up of the process are not in it
    peak_mb: float
    cpu: float = 0.0  # seconds of the process without its children


def in_turn(contenders: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Measured]]:
    """Runs every contender `rounds` times, one after another within each round."""
    results: dict[str, list[Measured]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, arguments in contenders.items():
            results[name].append(_run(arguments))
            print(f"round {number + 1} {name}: {results[name][-1].seconds:.2f} s", file=sys.stderr)
    return results


def report(work: Callable[[], object]) -> None:
    """Runs the work in this process and reports time and memory to the parent."""
    with _Children() as children:
        begun, cpu = time.perf_counter(), time.process_time()
        work()
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + children.peak_mb
    print(_MARK, json.dumps({"seconds": seconds, "peak_mb": peak, "cpu": cpu}))


class _Children:
    """Measures the memory of child processes, which counts too.

    Not by `RUSAGE_CHILDREN`, in which a new process begins with as much as the one that started it.
    """

    def __init__(self) -> None:
        self._peaks: dict[str, float] = {}
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Children":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    @property
    def peak_mb(self) -> float:
        """The sum of their peaks."""
        return sum(self._peaks.values())

    def _watch(self) -> None:
        while not self._done.wait(_LOOK):
            for task in Path("/proc/self/task").iterdir():
                with contextlib.suppress(OSError):
                    for child in (task / "children").read_text().split():
                        self._look(child)

    def _look(self, child: str) -> None:
        with contextlib.suppress(OSError):
            lines = Path("/proc", child, "status").read_text().splitlines()
            self._peaks[child] = sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def median(runs: Sequence[Measured]) -> Measured:
    """Returns the median times, and the highest peak."""
    return Measured(
        statistics.median(run.seconds for run in runs),
        max(run.peak_mb for run in runs),
        statistics.median(run.cpu for run in runs),
    )


def _run(arguments: Sequence[str]) -> Measured:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not lines:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return Measured(**json.loads(lines[-1].removeprefix(_MARK)))
