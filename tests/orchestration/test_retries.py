"""B10: how often a node is tried, how long is waited, and what is raised in the end."""

import os
import signal
import time

import pytest

from components.errors import BadInput, Cancelled, DiskFull
from components.settings.retry import Retry
from components.training import interrupt
from pipelines.orchestration import retries
from pipelines.orchestration.retries import FailedTry

POLICY = Retry(attempts=4, first_wait=10, max_wait=30)


class Node:
    """Fails with some errors, one per try, then returns its number of tries."""

    def __init__(self, *errors: Exception) -> None:
        """Takes the errors."""
        self.errors, self.tries = list(errors), 0

    def __call__(self, number: int) -> int:
        """Makes one try."""
        self.tries += 1
        assert number == self.tries
        if self.errors:
            raise self.errors.pop(0)
        return number


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time."""
    made: list[float] = []
    monkeypatch.setattr(retries, "sleep", made.append)
    return made


def test_a_node_that_fails_three_times(waits: list[float]) -> None:
    """The waits double up to the longest one, and every failed try is reported with its reason."""
    failed: list[FailedTry] = []
    node = Node(ConnectionResetError("reset"), DiskFull("/data: no space left"), TimeoutError("timed out"))

    assert retries.call(POLICY, node, failed.append) == 4
    assert waits == [10, 20, 30]
    assert [(each.number, each.reason, each.wait) for each in failed] == [
        (1, "no connection", 10), (2, "disk full", 20), (3, "no connection", 30),
    ]  # fmt: skip
    assert str(failed[1]) == (
        "try 2 of 4 failed (disk full): /data: no space left; next try in 20 s (retry.attempts, retry.first_wait)"
    )


def test_tries_that_are_exhausted(waits: list[float]) -> None:
    """The error of the last try is raised, so its exit code is that of the run."""
    node = Node(TimeoutError("a"), TimeoutError("b"), TimeoutError("c"), DiskFull("last"))
    with pytest.raises(DiskFull, match="last"):
        retries.call(POLICY, node, lambda _: None)
    assert (node.tries, len(waits)) == (4, 3)


def test_a_final_error_is_raised_at_once(waits: list[float]) -> None:
    """Bad input is not tried again, also if it comes in the second try."""
    node = Node(TimeoutError("a"), BadInput("t.csv: no rows"))
    with pytest.raises(BadInput, match="no rows"):
        retries.call(POLICY, node, lambda _: None)
    assert (node.tries, len(waits)) == (2, 1)


def test_one_attempt_means_no_second_one(waits: list[float]) -> None:
    """`retry.attempts=1` is a run without retries."""
    node = Node(TimeoutError("a"))
    with pytest.raises(TimeoutError):
        retries.call(Retry(attempts=1), node, lambda _: None)
    assert (node.tries, waits) == (1, [])


def test_a_signal_ends_a_wait_at_once() -> None:
    """SIGTERM during a wait of an hour raises Cancelled, with its exit code."""

    def failed(_: FailedTry) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    node = Node(TimeoutError("a"), TimeoutError("b"))
    former = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    begun = time.monotonic()
    try:
        with interrupt.raised(), pytest.raises(Cancelled) as stopped:
            retries.call(Retry(first_wait=3600, max_wait=3600), node, failed)
    finally:
        signal.signal(signal.SIGALRM, former)
    assert (stopped.value.signum, node.tries) == (signal.SIGTERM, 1)
    assert time.monotonic() - begun < 600


def test_a_signal_within_a_try_ends_it_for_good(waits: list[float]) -> None:
    """An error of cleaning up, such as a store that is away, does not hide that the user stopped the run."""
    tries: list[int] = []

    def stopped(number: int) -> None:
        tries.append(number)
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            raise ConnectionResetError("the store is away")

    with pytest.raises(Cancelled) as error, interrupt.raised():
        retries.call(POLICY, stopped, lambda _: None)
    assert (error.value.signum, tries, waits) == (signal.SIGTERM, [1], [])
