"""The meter: counts, rates, waits, and a simulated device."""

import itertools
import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pipelines.bench.processes import meter


def batches(size: int = 4) -> Iterator[dict[str, Any]]:
    """Yields the same batch forever."""
    yield from itertools.repeat({"image": np.ones((size, 3), np.uint8), "label": np.zeros(size)})


class TestTouch:
    """Every kind of batch is read completely, and its samples are counted."""

    @pytest.mark.parametrize(
        "batch",
        [
            np.zeros((5, 3), np.float32),
            {"image": np.zeros((5, 7, 7), np.uint8), "label": np.zeros(5)},
            ({"image": tf.zeros([5, 2])}, tf.zeros([5])),
            [np.array([b"a", b"bb", b"c", b"", b"e"], object)],
            tf.ragged.constant([[1, 2], [], [3], [4, 5, 6], [7]]),
            (np.zeros((5, 4))[:, ::2], np.zeros(5)),
        ],
        ids=["array", "dict", "tensors", "strings", "ragged", "strided"],
    )
    def test_samples_are_counted(self, batch: Any) -> None:
        """The first axis of the first array counts; for a ragged tensor, its rows."""
        assert meter.touch(batch) == 5

    def test_leaves_of_a_ragged_tensor(self) -> None:
        """Row ends, then values."""
        ends, values = meter.leaves(tf.ragged.constant([[1, 2], [], [3]]))

        assert ends.tolist() == [2, 2, 3]
        assert values.tolist() == [1, 2, 3]


class Time:
    """A fake clock that advances only when a batch is made or the device sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.clock = meter.Clock(lambda: self.now, self.pass_)

    def pass_(self, seconds: float) -> None:
        """Advances the clock."""
        self.now += seconds

    def batches(self, seconds: float, size: int = 4) -> Iterator[Any]:
        """Yields batches that take `seconds` each."""
        for batch in batches(size):
            self.pass_(seconds)
            yield batch


class TestFeed:
    """Rates and waits."""

    def test_an_interval(self) -> None:
        """Ten batches of a quarter of a second each."""
        time_ = Time()
        interval = meter.Feed(lambda: time_.batches(0.25), clock=time_.clock).run(2.5)

        assert (interval.samples, interval.seconds, interval.waits, interval.rate) == (40, 2.5, (0.25,) * 10, 16.0)
        assert interval.cpu_us == pytest.approx(1e6 * interval.cpu_seconds / 40)

    def test_a_callers_reader(self) -> None:
        """It decides how many samples a batch counts for."""
        time_ = Time()
        interval = meter.Feed(lambda: time_.batches(0.5), lambda batch: 10 * len(batch["label"]), time_.clock).run(2)

        assert interval.samples == 160

    def test_the_first_batch(self) -> None:
        """Its time includes building the pipeline."""
        time_ = Time()

        def make() -> Iterator[Any]:
            time_.pass_(3)
            return time_.batches(0.5)

        assert meter.Feed(make, clock=time_.clock).first_batch_seconds == 3.5

    def test_a_slow_device_is_always_busy(self) -> None:
        """It never waits for batches that are ready at once."""
        time_ = Time()
        seen = meter.Feed(lambda: time_.batches(0), clock=time_.clock).simulate(rate=16, seconds=2)

        assert seen == meter.Simulated(rate=16, utilisation=1.0, stall_p50=0, stall_p99=0, steps=8)

    def test_a_fast_device_waits(self) -> None:
        """With an input three times slower than a step, it computes a quarter of the time."""
        time_ = Time()
        seen = meter.Feed(lambda: time_.batches(0.75), clock=time_.clock).simulate(rate=16, seconds=8)

        assert seen == meter.Simulated(rate=16, utilisation=0.25, stall_p50=0.75, stall_p99=0.75, steps=8)

    def test_a_device_waits_for_each_batch(self) -> None:
        """Computing and waiting take turns, as in MLPerf Storage; they do not overlap."""
        time_ = Time()
        seen = meter.Feed(lambda: time_.batches(0.25), clock=time_.clock).simulate(rate=16, seconds=4)

        assert seen == meter.Simulated(rate=16, utilisation=0.5, stall_p50=0.25, stall_p99=0.25, steps=8)

    def test_a_late_wake_up_is_no_stall(self) -> None:
        """The time a sleep lasts too long is not the input's fault."""
        time_ = Time()
        late = meter.Clock(time_.clock.now, lambda seconds: time_.clock.sleep(seconds + 0.5))
        seen = meter.Feed(lambda: time_.batches(0), clock=late).simulate(rate=16, seconds=2)

        assert seen == meter.Simulated(rate=16, utilisation=1.0, stall_p50=0, stall_p99=0, steps=8)


class TestProcess:
    """CPU time and memory of a process and its workers."""

    def test_workers_count(self) -> None:
        """A worker adds to the CPU time and to the memory of its parent."""
        context = multiprocessing.get_context("fork")
        ready, end = context.Event(), context.Event()
        worker = context.Process(target=_work, args=(ready, end))
        cpu, busy, memory = meter.cpu_seconds(), meter.busy_seconds(), meter.peak_mb()
        worker.start()
        try:
            assert ready.wait(30)
            gained = meter.cpu_seconds() - cpu

            assert gained > 0.2
            assert meter.busy_seconds() - busy > 0.15
            assert meter.peak_mb() - memory > 40
        finally:
            end.set()
            worker.join()


def _work(ready: Any, end: Any) -> None:
    memory = np.ones(64 << 20, np.uint8)
    until = time.process_time() + 0.25
    while time.process_time() < until:
        memory[:1000].sum()
    ready.set()
    end.wait()


def test_quantiles() -> None:
    """The 99th percentile of a few values is the largest."""
    assert meter.quantiles([3.0, 1.0, 2.0]) == {50: 2.0, 99: 3.0}
    assert meter.quantiles(float(value) for value in range(1000)) == {50: 499.5, 99: 990.0}
