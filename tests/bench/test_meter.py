"""The clock beside the batches: what it counts, what it reads, what a device would have seen."""

import itertools
import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pipelines.bench import meter


def batches(size: int = 4) -> Iterator[dict[str, Any]]:
    """Yields the same batch without end."""
    yield from itertools.repeat({"image": np.ones((size, 3), np.uint8), "label": np.zeros(size)})


class TestTouch:
    """Every form of batch is read whole, and its samples counted."""

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
        """By the first array's first axis, or by a ragged one's rows."""
        assert meter.touch(batch) == 5

    def test_leaves_of_a_ragged_tensor(self) -> None:
        """Its rows' ends, and its values."""
        ends, values = meter.leaves(tf.ragged.constant([[1, 2], [], [3]]))

        assert ends.tolist() == [2, 2, 3]
        assert values.tolist() == [1, 2, 3]


class Time:
    """A clock that moves only when somebody works or sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.clock = meter.Clock(lambda: self.now, self.pass_)

    def pass_(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += seconds

    def batches(self, seconds: float, size: int = 4) -> Iterator[Any]:
        """Yields batches that take so long each."""
        for batch in batches(size):
            self.pass_(seconds)
            yield batch


class TestFeed:
    """Rates, waits and padding of what was consumed."""

    def test_a_window_counts_what_came(self) -> None:
        """Ten batches of a quarter second each."""
        time_ = Time()
        window = meter.Feed(lambda: time_.batches(0.25), clock=time_.clock).run(2.5)

        assert (window.samples, window.seconds, window.waits, window.rate) == (40, 2.5, (0.25,) * 10, 16.0)
        assert window.cpu_us == pytest.approx(1e6 * window.cpu_seconds / 40)
        assert (window.filled, window.cells) == (0, 0)

    def test_padding_is_counted_when_asked_for(self) -> None:
        """As the caller counts it."""
        time_ = Time()
        feed = meter.Feed(lambda: time_.batches(0.5), lambda batch: (len(batch["label"]), 10), time_.clock)
        window = feed.run(2)

        assert (window.filled, window.cells) == (16, 40)

    def test_the_first_batch_is_timed_from_the_making(self) -> None:
        """What making costs is in it."""
        time_ = Time()

        def make() -> Iterator[Any]:
            time_.pass_(3)
            return time_.batches(0.5)

        assert meter.Feed(make, clock=time_.clock).first_batch_seconds == 3.5

    def test_a_device_slower_than_the_input_is_always_busy(self) -> None:
        """Batches that are there at once leave nothing to wait for."""
        time_ = Time()
        seen = meter.Feed(lambda: time_.batches(0), clock=time_.clock).simulate(rate=16, seconds=2)

        assert seen == meter.Simulated(rate=16, utilisation=1.0, stall_p50=0, stall_p99=0, steps=8)

    def test_a_device_faster_than_the_input_waits(self) -> None:
        """An input that takes three times as long as a step leaves a quarter of the time to compute."""
        time_ = Time()
        seen = meter.Feed(lambda: time_.batches(0.75), clock=time_.clock).simulate(rate=16, seconds=8)

        assert seen == meter.Simulated(rate=16, utilisation=0.25, stall_p50=0.75, stall_p99=0.75, steps=8)

    def test_a_device_waits_while_a_batch_is_handed_over(self) -> None:
        """In turn: a quarter of a second for each quarter of computing, however early the input could have begun."""
        time_ = Time()
        seen = meter.Feed(lambda: time_.batches(0.25), clock=time_.clock).simulate(rate=16, seconds=4)

        assert seen == meter.Simulated(rate=16, utilisation=0.5, stall_p50=0.25, stall_p99=0.25, steps=8)

    def test_a_sleep_that_takes_too_long_is_no_stall(self) -> None:
        """The device was done when it said; it is the clock of this machine that was late."""
        time_ = Time()
        late = meter.Clock(time_.clock.now, lambda seconds: time_.clock.sleep(seconds + 0.5))
        seen = meter.Feed(lambda: time_.batches(0), clock=late).simulate(rate=16, seconds=2)

        assert seen == meter.Simulated(rate=16, utilisation=1.0, stall_p50=0, stall_p99=0, steps=8)


class TestProcess:
    """What a process and its workers use."""

    def test_workers_count(self) -> None:
        """A worker that computes adds to the CPU and to the memory of its parent, and is not the whole machine."""
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
    held = np.ones(64 << 20, np.uint8)
    until = time.process_time() + 0.25
    while time.process_time() < until:
        held[:1000].sum()
    ready.set()
    end.wait()


def test_quantiles() -> None:
    """The 99th percentile of few values is the largest."""
    assert meter.quantiles([3.0, 1.0, 2.0]) == {50: 2.0, 99: 3.0}
    assert meter.quantiles(float(value) for value in range(1000)) == {50: 499.5, 99: 990.0}
