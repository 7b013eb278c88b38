"""A `SchedulerClock` that only tests move."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass
class FakeClock:
    """A clock that only tests move."""

    time: datetime
    stopped_by: int = 0

    def now(self) -> datetime:
        """Returns the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Moves on."""
        self.time += timedelta(seconds=seconds)
