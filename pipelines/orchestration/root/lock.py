"""One run at a time per pipeline root. The kernel releases the lock when its holder ends, however it ends."""

import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import filelock
import orjson

from components.errors import BadInput, Locked
from components.redact import redact
from components.storage import durable
from pipelines.config import RunConfig
from pipelines.orchestration.root import disk

_FOREVER = -1


@contextmanager
def hold(notes: Path, *, wait: bool = False, place: Path | None = None, flag: str = "--root") -> Iterator[None]:
    """Holds the lock of a folder; raises Locked if another run has it, or waits for it.

    Args:
        notes: folder of the lock file.
        wait: whether to wait for the other run.
        place: the locked folder; the default is the folder of `notes`.
        flag: the command-line flag that names the folder, for messages.
    """
    place = place or notes.parent
    lock = filelock.FileLock(_prepared(notes, place, flag) / "lock")
    try:
        lock.acquire(timeout=_FOREVER if wait else 0)
    except filelock.Timeout:
        raise Locked(f"{place} is in use: {_holder(notes)}; wait for it with --wait, or use another {flag}") from None
    try:
        _sign(notes)
        yield
    finally:
        (notes / "holder.json").unlink(missing_ok=True)
        lock.release()


def identity_of(config: RunConfig) -> str:
    """Returns what distinguishes the root from all others, those of other machines included."""
    return str(config.root) if config.store else f"{socket.gethostname()}:{config.root}"


def _prepared(notes: Path, place: Path, flag: str) -> Path:
    try:
        notes.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=notes).close()
    except OSError as error:
        if error.errno in disk.REASONS:
            raise
        what = "pipeline root" if flag == "--root" else flag
        raise BadInput(f"{what} {place}: cannot be written: {error.strerror}; choose another {flag}") from None
    return notes


def _sign(notes: Path) -> None:
    holder = {"pid": os.getpid(), "started": time.time(), "command": redact(" ".join(sys.argv))[:200]}
    durable.write_bytes(notes / "holder.json", orjson.dumps(holder), private=True)


def _holder(notes: Path) -> str:
    try:
        holder = orjson.loads((notes / "holder.json").read_bytes())
        started = datetime.fromtimestamp(holder["started"], timezone.utc)
    except (OSError, ValueError, KeyError):
        return "by a run that has just started"
    return f"by pid {holder['pid']}, started {started:%Y-%m-%d %H:%M:%S} UTC"
