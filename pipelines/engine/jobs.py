"""Ends a job and its Python workers: when `end` returns, nothing of the job writes any more.

    cancel ─► asked again until Flink says that the job has ended ───────────────────────┬─► end its workers
         ├─► Flink never listed it: GRACE seconds after the job server has given it up ──┘
         └─► neither within LIMIT seconds: NotCancelled, which names the job

A worker finishes the bundle that it has begun, and publishes it, even if Flink has cancelled the job. So the workers of
this machine's engine are ended by their process numbers; those of other clusters are waited for.

A run notes its job in the notes of its root, from before the submission until the end. If the run is killed, the note
stays, and the next run on the root, on any runner, ends that job before it deletes what was left.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from components.errors import PenstockError
from components.storage import durable
from pipelines.engine import cluster, java, places
from pipelines.engine.rest import Flink, Unreachable

IDLE_MS = 10_000  # after which an idle Python worker ends: it holds about 1 GB
_LIMIT = 120.0  # seconds
_GRACE = 15.0  # seconds, in which a job server that was asked to cancel may still hand the job to Flink
_MARGIN = 5.0  # seconds that an idle worker needs to end
_POLL = 0.2
_NOTE = "flink-job.json"
_WAIT = 20  # seconds for killed processes


class NotCancelled(PenstockError):
    """A job may still be running, and writing."""


@dataclass(frozen=True)
class Note:
    """A job that may be running, in a file of the root's notes; without a folder or REST service there is no file."""

    folder: Path | None
    rest: str
    job: str

    def write(self) -> None:
        """Writes the file."""
        if self.folder is not None and self.rest:
            content = orjson.dumps({"rest": self.rest, "job": self.job})
            durable.write_bytes(self.folder / _NOTE, content, private=True)

    def remove(self) -> None:
        """Removes the file."""
        if self.folder is not None:
            (self.folder / _NOTE).unlink(missing_ok=True)


def end_left(folder: Path, say: Callable[[str], None]) -> None:
    """Ends the job that a killed run has left, if there is one; the lock of the root is held."""
    try:
        said = orjson.loads((folder / _NOTE).read_bytes())
        note = Note(folder, said["rest"], said["job"])
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise PenstockError(f"{folder / _NOTE}: not the note of a job ({error}); delete it if no job runs") from None
    flink = Flink(note.rest)
    try:
        job = flink.job(note.job)
    except Unreachable as error:
        is_over = java.HOST in note.rest and (_local(note.rest) is None or _has_no_manager(flink))
        if not is_over:  # else the engine of this machine has ended, with its jobs
            say(f"the Flink job {note.job}, which a run that was killed had left, may still run: {error}")
            return
    else:
        end(flink, note.job)
        if job is not None and not job.ended:
            say(f"cancelled the Flink job {note.job}, which a run that was killed had left")
    note.remove()


def end(flink: Flink, name: str, is_given_up: Callable[[], bool] = lambda: True) -> None:
    """Cancels a job, waits until it has ended, and ends its workers; raises NotCancelled if that takes too long.

    Args:
        flink: the cluster.
        name: of the job.
        is_given_up: whether the job server will not start the job any more.
    """
    limit, quiet, reason = time.monotonic() + _LIMIT, 0.0, "its state did not change"
    while True:
        try:
            job = flink.job(name)
            if job is None:
                quiet = quiet or (time.monotonic() if is_given_up() else 0.0)
                if quiet and time.monotonic() - quiet >= _GRACE:
                    break
            elif job.ended:
                break
            else:
                flink.cancel(job.id)
                reason = f"it is {job.state}"
        except Unreachable as error:
            if _has_no_manager(flink):
                break
            reason = str(error)
        if time.monotonic() >= limit:
            raise NotCancelled(
                f"the Flink job {name} was not cancelled within {_LIMIT:g} s ({reason}), so it may still write; cancel "
                f"it at {flink.address}, or stop the engine, before you run again"
            )
        time.sleep(_POLL)
    end_workers(flink.address, name)


def end_workers(rest: str, name: str) -> None:
    """Ends the Python workers of a job that has ended, or waits until they have ended by themselves."""
    state = _local(rest)
    if state is None:
        time.sleep(IDLE_MS / 1000 + _MARGIN)
        return
    managers = {each.pid for each in cluster.alive(state) if each.name.startswith("taskmanager")}
    found = [each for pid in _pids(places.run() / "logs", name) for each in _tree(pid, managers)]
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _, left = psutil.wait_procs(found, timeout=_WAIT)
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise NotCancelled(f"workers of the Flink job {name} do not end (pids {pids}), so they may still write")


def _local(rest: str) -> places.EngineState | None:
    """Returns the state of this machine's engine if it is the one with this REST service."""
    state = places.read()
    return state if state is not None and state.rest == rest else None


def _has_no_manager(flink: Flink) -> bool:
    """Whether the job manager was this machine's, and has ended: then no job of it starts again."""
    state = _local(flink.address)
    return state is not None and "jobmanager" not in [each.name for each in cluster.alive(state)]


def _pids(logs: Path, name: str) -> Iterator[int]:
    """Yields the process numbers of the workers that a job has started, as the first lines of their logs say."""
    for log in sorted(logs.glob("worker-*.log")):
        with contextlib.suppress(OSError), log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith('{"job"'):
                    with contextlib.suppress(ValueError, KeyError):
                        said = json.loads(line)
                        if said["job"] == name:
                            yield int(said["pid"])


def _tree(pid: int, managers: set[int]) -> list[psutil.Process]:
    """Returns a worker and its processes; none if its number belongs to a process that no task manager has started."""
    try:
        process = psutil.Process(pid)
        if managers.isdisjoint(parent.pid for parent in process.parents()):
            return []
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []
