"""What batches cost their consumer, measured from the consumer's side.

    next() ──wait──► batch ─► touch every byte ─► next()
                                  └─► a simulated device computes, and asks for the next one

Standard library and NumPy only: the environments of the peers that benchmarks compare with have nothing else.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_TICKS = 100  # of a second, in /proc: the same on every Linux
_WORD = 8
_FIRST_STEP = 1.0  # seconds

Filled = Callable[[Any], tuple[int, int]]  # of a batch: how many values are no padding, of how many


@dataclass(frozen=True)
class Window:
    """What a consumer got between two points of time."""

    samples: int
    seconds: float
    cpu_seconds: float  # of the process and of its workers
    others_seconds: float  # CPU that other processes of the machine used meanwhile
    waits: tuple[float, ...]  # seconds for each batch
    filled: int = 0  # values that are no padding …
    cells: int = 0  # … of these, where it was counted

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.samples / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU a sample."""
        return 1e6 * self.cpu_seconds / self.samples

    @property
    def others(self) -> float:
        """Share of the machine that others used: above a few hundredths, rates say little."""
        return self.others_seconds / (self.seconds * (os.cpu_count() or 1))


@dataclass(frozen=True)
class Simulated:
    """What a device of a given speed would have seen, as MLPerf Storage defines it."""

    rate: float  # samples a second that the device can take
    utilisation: float  # time of computing / time in all, first step excluded
    stall_p50: float  # seconds a step
    stall_p99: float
    steps: int


@dataclass(frozen=True)
class Clock:
    """Time, as it is told and as it passes."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


_REAL = Clock()


class Feed:
    """Batches without end, and the clock beside them."""

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        filled: Filled | None = None,
        clock: Clock = _REAL,
        samples: Callable[[Any], int] | None = None,
    ) -> None:
        """Makes the batches and takes the first.

        Args:
            make: returns the batches; the time to the first batch begins here.
            filled: counts padding, where there is some.
            clock: another one in tests.
            samples: reads a batch and returns how many samples it holds; without it every byte is read.
        """
        self._clock, self._touch = clock, samples or touch
        begun = clock.now()
        self._batches: Iterator[Any] = iter(make())
        self._filled = filled
        self.first = next(self._batches)
        self._touch(self.first)
        self.first_batch_seconds = clock.now() - begun

    def take(self) -> Any:
        """Returns the next batch, unmeasured."""
        return next(self._batches)

    def run(self, seconds: float) -> Window:
        """Consumes as fast as batches come, for so long."""
        samples = filled = cells = 0
        waits = []
        cpu, busy, begun = cpu_seconds(), busy_seconds(), self._clock.now()
        now = begun
        while now < begun + seconds:
            batch = next(self._batches)
            waits.append(self._clock.now() - now)
            samples += self._touch(batch)
            if self._filled:
                real, of = self._filled(batch)
                filled, cells = filled + real, cells + of
            now = self._clock.now()
        cpu, busy = cpu_seconds() - cpu, busy_seconds() - busy
        return Window(samples, now - begun, cpu, max(0.0, busy - cpu), tuple(waits), filled, cells)

    def simulate(self, rate: float, seconds: float) -> Simulated:
        """Consumes as a device would that takes `rate` samples a second, in turn, as MLPerf Storage does.

        A step is a sleep; the next batch is asked for when it is over, and until it comes the device waits. What the
        sleep takes too long is neither: it is this machine's clock. The first step is not counted, and takes a second,
        as where a model is compiled in it: whoever has just taken all there was would else be measured with buffers
        that are empty, which at this rate they never are again.
        """
        stalls: list[float] = []
        computed = waited = 0.0
        self._touch(next(self._batches))
        done = self._clock.now() + _FIRST_STEP
        while computed + waited < seconds:
            self._rest(done - self._clock.now())
            asked = self._clock.now()
            batch = next(self._batches)
            ready = self._clock.now()
            stalls.append(ready - asked)
            step = self._touch(batch) / rate
            computed, waited, done = computed + step, waited + stalls[-1], ready + step
        stall = quantiles(stalls)
        return Simulated(rate, computed / (computed + waited), stall[50], stall[99], len(stalls))

    def _rest(self, seconds: float) -> None:
        if seconds > 0:
            self._clock.sleep(seconds)


def touch(batch: Any) -> int:
    """Reads every byte of a batch, and returns how many samples it holds."""
    arrays = list(leaves(batch))
    for array in arrays:
        _read(array)
    return len(arrays[0])


def leaves(batch: Any) -> Iterator[Any]:
    """Yields the arrays of a batch, however nested; a ragged one is its rows' ends and its values."""
    if isinstance(batch, Mapping):
        for value in batch.values():
            yield from leaves(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from leaves(value)
    elif hasattr(batch, "row_splits"):
        yield batch.row_splits.numpy()[1:]
        yield from leaves(batch.flat_values)
    else:
        yield batch.numpy() if hasattr(batch, "numpy") else np.asarray(batch)


def _read(array: Any) -> None:
    if array.dtype == object:  # strings, as TensorFlow hands them over
        for value in array.ravel().tolist():
            len(value)
        return
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = len(content) // _WORD * _WORD
    # The fastest reduction that NumPy has: a tenth of what the cheapest image costs.
    np.max(content[:words].view(np.uint64), initial=0)
    np.max(content[words:], initial=0)


def quantiles(values: Iterable[float]) -> dict[int, float]:
    """Returns median and 99th percentile."""
    found = sorted(values)
    return {50: statistics.median(found), 99: found[min(len(found) - 1, int(0.99 * len(found)))]}


def cpu_seconds() -> float:
    """Returns what this process and its living workers have used."""
    return time.process_time() + sum(_cpu_of(worker) for worker in _workers())


def busy_seconds() -> float:
    """Returns the CPU time that all processes of the machine have used."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS


def peak_mb() -> float:
    """Returns the most memory that this process has held, and what its workers hold now of their own."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return own + sum(_proportional_mb(worker) for worker in _workers())


def _workers() -> list[Path]:
    """Returns the processes below this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(stat)
        if fields:
            parents[int(stat.parent.name)] = int(fields[1])
    found, waiting = [], [int(Path("/proc/self").resolve().name)]
    while waiting:
        parent = waiting.pop()
        children = [child for child, of in parents.items() if of == parent]
        found += children
        waiting += children
    return [Path("/proc", str(worker)) for worker in found]


def _stat(stat: Path) -> list[str]:
    """Returns the fields after the command's name, which may hold blanks and brackets; none if the process is gone."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_of(worker: Path) -> float:
    fields = _stat(worker / "stat")
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _proportional_mb(worker: Path) -> float:
    """Returns the memory of a process, with what it shares divided among those who share it."""
    try:
        lines = (worker / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
