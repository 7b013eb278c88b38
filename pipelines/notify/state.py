"""What was notified of a pipeline, and what is still to be sent: one file, `<state>/.penstock/notify/PIPELINE.json`.

It is read and written under a lock, whole. On a full or read-only disk it is kept in memory: what cannot be recorded
is still sent, and perhaps once more by the next call.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import filelock
import orjson

from components import progress
from components.settings.notify import NotifyEvent
from components.storage import durable
from pipelines.notify.notification import Notification

_PATIENCE = 2.0  # seconds; the lock is held for milliseconds


@dataclass(frozen=True)
class Pending:
    """A notification that some receivers have not taken yet."""

    notification: Notification
    to: tuple[str, ...]  # names of receivers


@dataclass(frozen=True)
class Seen:
    """What was already notified, of one run or tick."""

    calls: int = 0  # of the run
    events: tuple[NotifyEvent, ...] = ()  # that were notified


@dataclass(frozen=True)
class NotifyState:
    """What was notified of one pipeline."""

    since: str  # nothing that began before is notified; ISO 8601, UTC
    last: tuple[NotifyEvent, str] | None = None  # failed, late or not better, and the reason; None: all is well
    late_tick: str = ""  # a tick that no scheduler had handled; empty: none, or one has
    seen: Mapping[str, Seen] = field(default_factory=dict)  # by run or tick, oldest first
    outbox: tuple[Pending, ...] = ()


class StateFile:
    """The file of one pipeline."""

    def __init__(self, notes: Path, pipeline: str, now: Callable[[], datetime]) -> None:
        """Takes `RunConfig.notes`, the name of the pipeline and a clock, UTC."""
        self.path, self._now = notes / "notify" / f"{pipeline}.json", now
        self._has_warned = False  # that the file is damaged
        self._unwritten: NotifyState | None = None
        self._base: NotifyState | None = None  # what was in the file when that could not be written

    def read(self) -> NotifyState:
        """Returns the state; a new one if there is none, or it cannot be read."""
        return self._present(self._written())

    def change(self, change: Callable[[NotifyState], NotifyState]) -> NotifyState:
        """Changes the state and returns it; in memory only if it cannot be written."""
        try:
            with self._locked():
                durable.sweep(self.path.parent, self.path.name)
                before = self._written()
                after = change(self._present(before))
                if after != before:
                    content = orjson.dumps(asdict(after), option=orjson.OPT_INDENT_2)
                    durable.write_bytes(self.path, content, private=True)
                self._unwritten = None
        except OSError as error:
            if self._unwritten is None:
                reason = error.strerror or error
                progress.warn(f"{self.path}: cannot be written: {reason}; a notification may come twice")
            written = self._written()
            after = change(self._present(written))
            self._base, self._unwritten = written, after
        return after

    def _present(self, written: NotifyState | None) -> NotifyState:
        """Returns what is known: what is in memory only, unless another process has written the file since."""
        if self._unwritten is not None and written == self._base:
            return self._unwritten
        return written or self._new()

    def _new(self) -> NotifyState:
        return NotifyState(self._now().isoformat(timespec="milliseconds"))

    def _written(self) -> NotifyState | None:
        try:
            return _state(orjson.loads(self.path.read_bytes()))
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, KeyError):
            if not self._has_warned:  # a scheduler reads it every ten seconds
                progress.warn(f"{self.path}: cannot be read; earlier notifications, sent or not, are forgotten")
            self._has_warned = True
        return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(mode=durable.OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        with filelock.FileLock(self.path.with_suffix(".lock"), timeout=_PATIENCE):
            yield


def _state(values: Mapping[str, Any]) -> NotifyState:
    return NotifyState(
        since=values["since"],
        last=(values["last"][0], values["last"][1]) if values["last"] else None,
        late_tick=values["late_tick"],
        seen={key: Seen(each["calls"], tuple(each["events"])) for key, each in values["seen"].items()},
        outbox=tuple(Pending(Notification(**each["notification"]), tuple(each["to"])) for each in values["outbox"]),
    )
