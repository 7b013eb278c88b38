"""One run at a time per root on an object store: a lock object with a heartbeat.

    create-if-absent of .penstock/lock.json ─► run, which rewrites the object every 20 s ─► delete
             │ exists
             ├─ of this state folder on this host, whose local lock we hold: its run was killed ─► taken over at once
             ├─ not rewritten for 3 minutes, or --take-over ─► taken over
             └─ else ─► Locked, or --wait

Every write after the first compares the object's identity, so two machines never both believe that they took it over.
A run that finds another holder ends before it publishes anything more.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import orjson

from components.errors import Locked
from components.storage.objects import ObjectPath

BEAT = 20.0  # seconds between two heartbeats
OLD = 180.0  # seconds without a heartbeat after which the holder counts as dead
_PATIENCE = 5.0  # seconds to wait for the heartbeat at the end
_POLL = 2.0  # seconds between two attempts with --wait
_ADVICE = "wait for it with --wait, use another --root, or, if that run has ended, take its lock over with --take-over"


@dataclass
class Lease:
    """The lock of a remote root while this run holds it."""

    path: ObjectPath
    holder: dict[str, Any]
    _ended: threading.Event = field(default_factory=threading.Event)
    _beating: threading.Lock = field(default_factory=threading.Lock)
    _lost: str = ""
    _last: float = field(default_factory=time.monotonic)  # start of the last heartbeat that was written

    @property
    def is_lost(self) -> bool:
        """Whether another run has taken the lock over."""
        return bool(self._lost)

    def require(self) -> None:
        """Raises Locked if another run has taken the lock over, or may have done so while the store was away."""
        if not self._lost and time.monotonic() - self._last > 2 * BEAT:  # this machine may have been suspended
            self.beat()
        if not self._lost and time.monotonic() - self._last > OLD:
            self._lost = f"no heartbeat could be written for {OLD:.0f} s, and another run may have taken it over"
        if self._lost:
            raise Locked(f"{self.path}: {self._lost}; this run stopped before it published anything more")

    def beat(self) -> None:
        """Rewrites the lock object, so that others see that this run is alive."""
        with self._beating:
            begun = time.monotonic()
            try:
                if not self._ended.is_set() and self._write():
                    self._last = begun
            except Exception as error:  # noqa: BLE001 - whatever it is, the next beat tries again
                logging.getLogger(__name__).warning("%s: no heartbeat: %s", self.path, error)

    def _write(self) -> str:
        found, identity = _read(self.path)
        if found.get("id") not in (None, self.holder["id"]):
            self._lost = f"taken over {_described(found)}"
            return ""
        if identity:
            return self.path.replace_if(_content(self.holder), identity)
        if self._ended.is_set():
            return ""
        return self.path.create(_content(self.holder))  # deleted by hand

    def watch(self) -> None:
        """Beats until `end`, in a thread of its own."""
        while not self._ended.wait(BEAT) and not self._lost:
            self.beat()

    def end(self, thread: threading.Thread) -> None:
        """Stops the heartbeat, and deletes the object if it is still ours."""
        self._ended.set()
        thread.join(_PATIENCE)  # it may wait for a store that cannot be reached
        with suppress(OSError):
            found, identity = _read(self.path)
            is_ours = not self._lost and found.get("id") == self.holder["id"]
            # A store deletes without a condition. So write it once more, by its identity: it is not old then.
            if is_ours and self.path.replace_if(_content(self.holder), identity):
                self.path.unlink(missing_ok=True)


@contextmanager
def hold(
    root: ObjectPath, state: str, *, wait: bool = False, take_over: bool = False, advice: str = _ADVICE
) -> Iterator[Lease]:
    """Holds the lock of a root on an object store; raises Locked if another run has it, or waits for it.

    Args:
        root: the root.
        state: id of the state folder; the caller holds the local lock of that folder.
        wait: whether to wait for the other run.
        take_over: whether to take the lock from a holder whose heartbeat is not old yet.
        advice: what the user can do if another run has it.
    """
    path = root / ".penstock" / "lock.json"
    holder = {
        "id": uuid.uuid4().hex,
        "state": state,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started": time.time(),
    }
    while (lease := _acquire(path, holder, take_over=take_over)) is None:
        found, _ = _read(path)
        if not wait:
            raise Locked(f"{root} is in use {_described(found)}; {advice}")
        time.sleep(_POLL)
    thread = threading.Thread(target=lease.watch, name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease.end(thread)


def _acquire(path: ObjectPath, holder: dict[str, Any], *, take_over: bool) -> Lease | None:
    if path.create(_content(holder)):
        return Lease(path, holder)
    found, identity = _read(path)
    is_killed = (found.get("state"), found.get("host")) == (holder["state"], holder["host"])
    if identity and (take_over or is_killed or _age(path) > OLD):
        return Lease(path, holder) if path.replace_if(_content(holder), identity) else None
    return None


def _content(holder: dict[str, Any]) -> bytes:
    return orjson.dumps({**holder, "beat": time.time()})


def _read(path: ObjectPath) -> tuple[dict[str, Any], str]:
    """Returns the holder and the identity of the lock object; nothing if it does not exist."""
    try:
        identity = path.stat().identity  # first: if the object changes before it is read, no replacement succeeds
        return dict(orjson.loads(path.read_bytes())), identity
    except FileNotFoundError:
        return {}, ""
    except (ValueError, TypeError):
        return {}, identity


def _age(path: ObjectPath) -> float:
    """Returns the seconds since the object was written, both by the store's clock."""
    probe = path.parent / "clock" / uuid.uuid4().hex
    try:
        written = path.stat().st_mtime_ns
        probe.write_bytes(b"")
        return (probe.stat().st_mtime_ns - written) / 1e9
    except FileNotFoundError:  # released meanwhile
        return 0.0
    finally:
        probe.unlink(missing_ok=True)


def _described(found: dict[str, Any]) -> str:
    if not found.get("started"):
        return "by a run that has just started or ended"
    started = datetime.fromtimestamp(found["started"], timezone.utc)
    return f"by pid {found.get('pid')} on {found.get('host')}, started {started:%Y-%m-%d %H:%M:%S} UTC"
