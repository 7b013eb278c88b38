"""The time, and waiting for it; tests have a clock of their own."""

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        # Python itself writes each signal's number here. A handler that sets a threading.Event waits for ever if the
        # signal arrives while the sleep holds the lock of the event.
        self._signals, self._arrived = socket.socketpair()
        self._signals.setblocking(False)
        self._arrived.setblocking(False)
        self._stopped_by = 0

    def now(self) -> datetime:
        """Returns the time, UTC."""
        return datetime.now(timezone.utc)

    def sleep(self, seconds: float) -> None:
        """Waits so long, or until a signal arrives."""
        if select.select([self._signals], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                self._signals.recv(4096)

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

        def ignore(signum: int, frame: FrameType | None) -> None:
            del signum, frame

        # SIGCHLD has a handler, because Python writes down no other signals.
        wanted = {**dict.fromkeys(_STOPS, stop), signal.SIGCHLD: ignore}
        descriptor = signal.set_wakeup_fd(self._arrived.fileno(), warn_on_full_buffer=False)
        old = {signum: signal.signal(signum, handler) for signum, handler in wanted.items()}
        try:
            yield
        finally:
            signal.set_wakeup_fd(descriptor)
            for signum, handler in old.items():
                signal.signal(signum, handler)
