"""What happened in a run, as lines of JSON: `logs/<run id>.jsonl`, for a program; `.log` has what libraries print.

    {"time": "2026-11-19T01:44:33.120+00:00", "run": "20261119-014433-7f3a", "pipeline": "image",
     "event": "node started", "node": "Trainer", "reason": "upstream Ingest changed"}

Events: run started, node started, progress, node finished, node failed, warning, message, pushed, run ended. A run that
ends before it loads TFX, such as one with nothing due, has none.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from components.progress import Progress
from components.redact import redact
from components.storage import durable
from pipelines.journal.calls import now, reason_of, state_of

_INTERVAL = 2.0  # seconds between two lines about progress
_TAIL = 1 << 16  # bytes that `last` reads


class EventLog:
    """Appends events of one run to its file, readable by its owner only, without secrets."""

    def __init__(self, file: Path, run: str, pipeline: str) -> None:
        """Takes the file, which is created with its first line, and what every line names."""
        self._file, self._names = file, {"run": run, "pipeline": pipeline}
        self._node, self._reported, self._begun = "", 0.0, time.monotonic()

    def write(self, event: str, **values: Any) -> None:
        """Appends one event; values that are None are left out."""
        given = {name: redact(value) if isinstance(value, str) else value for name, value in values.items()}
        line = {"time": now(), **self._names, "event": event, **{k: v for k, v in given.items() if v is not None}}
        with suppress(OSError):  # a full disk ends the log, not the run
            self._file.parent.mkdir(mode=durable.OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            with open(self._file, "ab", opener=durable.owner_only) as file:
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def node_started(self, node: str, reason: str) -> None:
        """Appends the start of a node, which the next progress is of."""
        self._node, self._reported = node, 0.0
        self.write("node started", node=node, reason=reason)

    def progress(self, progress: Progress) -> None:
        """Appends the progress of the running node, every two seconds at most."""
        if time.monotonic() - self._reported >= _INTERVAL:
            self._reported = time.monotonic()
            self.write("progress", node=self._node, **{k: v for k, v in asdict(progress).items() if v != ""})

    def ended(self, exit_code: int, reason: str) -> None:
        """Appends the end of the run."""
        said = reason_of(exit_code, reason)
        seconds = round(time.monotonic() - self._begun, 3)
        self.write("run ended", state=state_of(exit_code), exit_code=exit_code, reason=said, seconds=seconds)


def last(file: Path, event: str) -> dict[str, Any] | None:
    """Returns the newest event of a kind, if it is near the end of the file."""
    return next((found for found in _newest_first(file) if found.get("event") == event), None)


def last_time(file: Path) -> str:
    """Returns the time of the newest event; empty if there is none."""
    return next((str(found["time"]) for found in _newest_first(file) if "time" in found), "")


def _newest_first(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the events near the end of a file."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - _TAIL))
            lines = opened.read().splitlines()
    except FileNotFoundError:
        return
    for line in reversed(lines):
        with suppress(ValueError):  # the first and the last line may be cut
            yield orjson.loads(line)
