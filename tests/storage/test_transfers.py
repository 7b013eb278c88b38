"""Transfers that run at once give their results in order, and end together."""

import errno
import signal
import threading
from typing import Any

import pytest

from components.storage import object_stores, transfers
from components.storage.objects import ObjectPath


def test_results_are_in_order() -> None:
    """Whichever ends first."""
    assert transfers.each(lambda number: number * 2, range(20), 4) == list(range(0, 40, 2))


def test_ctrl_c_ends_requests_that_are_repeated(
    s3_bucket: str, s3_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store cannot be reached: at once, not after the minute for which a request is repeated."""
    home, failed, ended = ObjectPath(f"{s3_bucket}/home"), threading.Semaphore(0), threading.Semaphore(0)
    numbers: list[int | None] = []
    may_pass = object_stores.may_pass

    def counted(error: BaseException) -> bool:
        failed.release()
        return may_pass(error)

    def work(number: int) -> None:
        if number == 0:
            for _ in range(3):
                assert failed.acquire(timeout=50)
            signal.raise_signal(signal.SIGINT)
            return
        try:
            (home / str(number)).write_bytes(b"x")
        except OSError as error:
            numbers.append(error.errno)
        ended.release()

    monkeypatch.setattr(object_stores, "may_pass", counted)
    s3_server.stop()
    # A process that a shell starts in the background ignores Ctrl-C.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            transfers.each(work, range(9), 4)
    finally:
        signal.signal(signal.SIGINT, handler)

    assert all(ended.acquire(timeout=50) for _ in range(3))
    assert set(numbers) == {errno.EINTR}
