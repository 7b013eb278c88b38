"""Measures batches from the consumer's side: rate, CPU time, waiting time, memory.

    next() ──wait──► batch ─► touch every byte ─► next()
                                  └─► a simulated device computes, then asks for the next one

Standard library and NumPy only: benchmarks run it in the environments of other data loaders, which have nothing else.
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

_TICKS = 100  # per second in /proc, on every Linux
_WORD = 8
_FIRST_STEP = 1.0  # seconds


@dataclass(frozen=True)
class Interval:
    """What a consumer received in one interval of time."""

    samples: int
    seconds: float
    cpu_seconds: float  # of this process and its workers
    others_seconds: float  # CPU time of all other processes on the machine
    waits: tuple[float, ...]  # seconds per batch

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU time per sample."""
        return 1e6 * self.cpu_seconds / self.samples

    @property
    def others(self) -> float:
        """Share of the machine used by other processes; above a few percent, rates are unreliable."""
        return self.others_seconds / (self.seconds * (os.cpu_count() or 1))


@dataclass(frozen=True)
class Simulated:
    """How well a simulated device was fed, as MLPerf Storage defines it."""

    rate: float  # samples per second that the device can process
    utilisation: float  # computing time / total time, without the first step
    stall_p50: float  # seconds per step
    stall_p99: float
    steps: int


@dataclass(frozen=True)
class Clock:
    """The current time and a way to sleep; tests replace both."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


_REAL = Clock()


class Feed:
    """Consumes endless batches and measures them."""

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        samples: Callable[[Any], int] | None = None,
        clock: Clock = _REAL,
    ) -> None:
        """Builds the pipeline and takes the first batch.

        Args:
            make: returns the batches; the time to the first batch includes it.
            samples: reads a batch and returns its number of samples; default: reads every byte.
            clock: a fake one in tests.
        """
        self._clock, self._touch = clock, samples or touch
        start = clock.now()
        self._batches: Iterator[Any] = iter(make())
        self._touch(next(self._batches))
        self.first_batch_seconds = clock.now() - start

    def take(self) -> Any:
        """Returns the next batch without measuring it."""
        return next(self._batches)

    def run(self, seconds: float) -> Interval:
        """Consumes batches as fast as they come."""
        samples, waits = 0, []
        cpu, busy, start = cpu_seconds(), busy_seconds(), self._clock.now()
        now = start
        while now < start + seconds:
            batch = next(self._batches)
            waits.append(self._clock.now() - now)
            samples += self._touch(batch)
            now = self._clock.now()
        cpu, busy = cpu_seconds() - cpu, busy_seconds() - busy
        return Interval(samples, now - start, cpu, max(0.0, busy - cpu), tuple(waits))

    def simulate(self, rate: float, seconds: float) -> Simulated:
        """Consumes as a device that processes `rate` samples per second would, as MLPerf Storage simulates it.

        A step is a sleep. When it is over, the device asks for the next batch and stalls until it comes. The time by
        which a sleep lasts too long counts as neither. The first step is not counted and takes a second, like the step
        in which a model is compiled: right after `run` the buffers are empty, which at this rate they never are again.
        """
        stalls: list[float] = []
        computed = waited = 0.0
        self._touch(next(self._batches))
        done = self._clock.now() + _FIRST_STEP
        while computed + waited < seconds:
            self._sleep(done - self._clock.now())
            asked = self._clock.now()
            batch = next(self._batches)
            ready = self._clock.now()
            stalls.append(ready - asked)
            step = self._touch(batch) / rate
            computed, waited, done = computed + step, waited + stalls[-1], ready + step
        stall = quantiles(stalls)
        return Simulated(rate, computed / (computed + waited), stall[50], stall[99], len(stalls))

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._clock.sleep(seconds)


def touch(batch: Any) -> int:
    """Reads every byte of a batch and returns its number of samples."""
    arrays = list(leaves(batch))
    for array in arrays:
        _read(array)
    return len(arrays[0])


def leaves(batch: Any) -> Iterator[Any]:
    """Yields the arrays of a nested batch; a ragged tensor yields its row ends and its values."""
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
    if array.dtype == object:  # strings from TensorFlow
        for value in array.ravel().tolist():
            len(value)
        return
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = len(content) // _WORD * _WORD
    # NumPy's fastest reduction: a tenth of the cost of the cheapest image.
    np.max(content[:words].view(np.uint64), initial=0)
    np.max(content[words:], initial=0)


def quantiles(values: Iterable[float]) -> dict[int, float]:
    """Returns the median and the 99th percentile."""
    ordered = sorted(values)
    return {50: statistics.median(ordered), 99: ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]}


def cpu_seconds() -> float:
    """Returns the CPU time of this process and its living workers."""
    return time.process_time() + sum(_cpu_of(worker) for worker in _workers())


def busy_seconds() -> float:
    """Returns the CPU time of all processes on the machine."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS


def peak_mb() -> float:
    """Returns the peak memory of this process plus the current memory of its workers."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return own + sum(_proportional_mb(worker) for worker in _workers())


def _workers() -> list[Path]:
    """Returns the descendants of this process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(stat)
        if fields:
            parents[int(stat.parent.name)] = int(fields[1])
    workers, queue = [], [os.getpid()]
    while queue:
        parent = queue.pop()
        children = [child for child, its_parent in parents.items() if its_parent == parent]
        workers += children
        queue += children
    return [Path("/proc", str(worker)) for worker in workers]


def _stat(stat: Path) -> list[str]:
    """Returns the fields after the command name, which may contain spaces and brackets; [] if the process has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_of(worker: Path) -> float:
    fields = _stat(worker / "stat")
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _proportional_mb(worker: Path) -> float:
    """Returns the memory of a process; shared pages are divided among the processes that share them."""
    try:
        lines = (worker / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
