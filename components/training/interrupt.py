"""SIGTERM and Ctrl-C: an exception; during training noted, so that the loop can write a checkpoint before it ends."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from components.errors import Cancelled

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_received: list[int] = []  # what `raised` has turned into Cancelled


@contextmanager
def raised() -> Iterator[None]:
    """Turns signals into Cancelled, so that a stopped run still closes its executions."""

    def cancel(signum: int, frame: FrameType | None) -> None:
        del frame
        _received.append(signum)
        raise Cancelled(signum)

    old = {signum: signal.signal(signum, cancel) for signum in _SIGNALS}
    try:
        with preserved():
            yield
    finally:
        _received.clear()
        for signum, handler in old.items():
            signal.signal(signum, handler)


@contextmanager
def preserved() -> Iterator[None]:
    """Raises Cancelled in place of an error that a library made of it.

    TensorFlow's scopes fail as Cancelled passes through them: "Exiting device scope without proper scope nesting".
    """
    try:
        yield
    except Exception as error:
        if _received:
            raise Cancelled(_received[0]) from error
        raise


@contextmanager
def noted() -> Iterator[Callable[[], int]]:
    """Yields a function that returns the number of the signal that was received, or 0.

    A block that ends although a signal was received, perhaps after it looked for the last time, raises Cancelled.
    A second signal has its former effect at once. Only the main thread can receive signals: in others nothing changes.
    """
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if received and callable(former := old[signal.Signals(signum)]):
            former(signum, frame)
        received.append(signum)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    old = {signum: signal.signal(signum, note) for signum in _SIGNALS}
    try:
        yield lambda: received[0] if received else 0
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)
    if received:
        raise Cancelled(received[0])


@contextmanager
def ignored() -> Iterator[None]:
    """Lets signals have no effect: for a cleanup that must not be left. In other threads nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Not SIG_IGN, which processes that are started meanwhile would inherit.
    old = {signum: signal.signal(signum, lambda *_: None) for signum in _SIGNALS}
    try:
        yield
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)
