"""The time, and waiting for it; tests have a clock of their own."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from types import FrameType
from typing import Protocol

_STOPS = (signal.SIGTERM, signal.SIGINT)


class SchedulerClock(Protocol):
    """What a scheduler knows of the time."""

    def now(self) -> datetime:
        """Returns the time, UTC."""

    def sleep(self, seconds: float) -> None:
        """Waits so long, or until something happens."""

    @property
    def stopped_by(self) -> int:
        """The number of the signal that ends the scheduler; 0 if there was none."""


class SystemClock:
    """The clock of this machine. A signal and the end of a child end a sleep."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self._stopped_by = 0

    def now(self) -> datetime:
        """Returns the time, UTC."""
        return datetime.now(timezone.utc)

    def sleep(self, seconds: float) -> None:
        """Waits so long, or until a signal arrives."""
        self._woken.wait(seconds)
        self._woken.clear()

    @property
    def stopped_by(self) -> int:
        """The number of the signal that ends the scheduler; 0 if there was none."""
        return self._stopped_by

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Lets SIGTERM and Ctrl-C stop the scheduler between two steps, never within one."""

        def stop(signum: int, frame: FrameType | None) -> None:
            del frame
            self._stopped_by = signum
            self._woken.set()

        def wake(signum: int, frame: FrameType | None) -> None:
            del signum, frame
            self._woken.set()

        wanted = {**dict.fromkeys(_STOPS, stop), signal.SIGCHLD: wake}
        old = {signum: signal.signal(signum, handler) for signum, handler in wanted.items()}
        try:
            yield
        finally:
            for signum, handler in old.items():
                signal.signal(signum, handler)
