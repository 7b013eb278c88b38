"""Units written at the same time, as many as there are cores.

    unit ─► who is free? ─┬─ this process
                          ├─ files of this machine ─► helpers beside it, as soon as they are there
                          └─ all else ──────────────► threads of this one

To read, check and write files is half Python, and threads of one process have but one lock for that: measured on
100 KB images, two threads took longer than one. A helper needs neither Beam nor TensorFlow.
"""

import contextlib
import os
import pickle
import queue
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import PenstockError
from components.ingest.close import reports
from components.ingest.work import heap
from components.ingest.work.files_unit import FilesUnit, Target
from components.ingest.work.helper import Helper
from components.native import checker

if TYPE_CHECKING:  # Arrow and TensorFlow are in it, which a helper does without
    from components.ingest.work.units import Unit

_CORES = os.cpu_count() or 1
_SOON = 0.01  # seconds after which it is asked again whether a helper is there
_Write = Callable[["Unit", Target], int]
_HERE = "here"  # what a helper says first
_DIED = "a process that writes shards died, killed perhaps for want of memory; nothing was published: run again"


class Crew:
    """Writes units, each by whoever is free."""

    def __init__(self, target: Target) -> None:
        heap.keep()
        self._target = target
        self._pool = ThreadPoolExecutor(_CORES)
        self._running: set[Future[int]] = set()
        self._free: queue.SimpleQueue[_Write] | None = None  # who: it depends on the first unit
        self._helpers: list[_Beside] = []
        self._coming: list[_Beside] = []  # those of them that are not there yet

    def write(self, unit: "Unit") -> int:
        """Has a unit written, and returns how many records of earlier ones were written or set aside since."""
        if self._free is None:
            self._free = self._gathered(unit)
        self._running.add(self._pool.submit(self._write, self._free, unit))
        return self._wait(self._free, _CORES)

    def finish(self) -> int:
        """Waits for all that was begun, and returns how many records those were."""
        done = self._wait(self._free, 0) if self._free else 0
        self._end()
        return done

    def _gathered(self, first: "Unit") -> "queue.SimpleQueue[_Write]":
        free: queue.SimpleQueue[_Write] = queue.SimpleQueue()
        alone = not (isinstance(first, FilesUnit) and isinstance(first.home, Path))
        if not alone:
            self._helpers, _STARTED[:] = _STARTED[:], []
            self._coming = self._helpers[:]
        for _ in range(_CORES if alone else 1):
            free.put(write)
        return free

    def _write(self, free: "queue.SimpleQueue[_Write]", unit: "Unit") -> int:
        mine = free.get()
        try:
            return mine(unit, self._target)
        finally:
            free.put(mine)

    def _wait(self, free: "queue.SimpleQueue[_Write]", most: int) -> int:
        """Waits until so many units are left at most; when one fails, none goes on behind its back."""
        done = 0
        try:
            self._admit(free)
            while len(self._running) > most:
                ended, self._running = wait(self._running, _SOON if self._coming else None, FIRST_COMPLETED)
                done += sum(future.result() for future in ended)
                self._admit(free)
        except BaseException:
            self._end()
            raise
        return done

    def _admit(self, free: "queue.SimpleQueue[_Write]") -> None:
        """Gives work to helpers that have come; until then all is done without them."""
        for helper in self._coming[:]:
            if helper.is_there():
                self._coming.remove(helper)
                free.put(helper.write)

    def _end(self) -> None:
        for future in self._running:
            future.cancel()
        for helper in self._helpers:
            helper.close()
        self._pool.shutdown()


def write(unit: "Unit", target: Target) -> int:
    """Writes a unit in this process; returns how many records were written or set aside."""
    made = unit.write(target)
    reports.store(target.artifact, unit.name, made)
    return sum(report.records + len(report.quarantined) for report in made)


class _Beside:
    """A helper, and what it is asked."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._helper = Helper(f"{__name__}:serve", environment)
        self._met = False

    def is_there(self) -> bool:
        """Whether it answers at once, be it that it died."""
        return self._helper.pipe.poll()

    def write(self, unit: "Unit", target: Target) -> int:
        """Writes a unit there."""
        try:
            if not self._met:
                self._met = self._helper.pipe.recv() == _HERE
            self._helper.pipe.send((unit, target.plain()))
            answer = self._helper.pipe.recv()
        except (EOFError, OSError):
            raise PenstockError(_DIED) from None
        if isinstance(answer, int):
            return answer
        raise answer

    def close(self) -> None:
        """Ends the process, whatever it is at."""
        self._helper.close()


_STARTED: list[_Beside] = []
os.register_at_fork(after_in_child=_STARTED.clear)  # a pipe has one reader


@contextlib.contextmanager
def started(worth: bool) -> Iterator[None]:
    """Has helpers start for a crew of this process, which takes them 0.1 s; ends them if there is none."""
    try:
        if worth:
            told = checker.environment()
            _STARTED.extend(_Beside(told) for _ in range(_CORES - 1))
        yield
    finally:
        while _STARTED:
            _STARTED.pop().close()


def serve(pipe: "Connection[Any, Any]") -> None:
    """What a helper does: writes units, and tells how many records each has or what went wrong."""
    heap.keep()
    pipe.send(_HERE)
    while True:
        unit, target = pipe.recv()
        try:
            pipe.send(write(unit, target))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for the other end
            pipe.send(_portable(error))


def _portable(error: Exception) -> Exception:
    """Returns an error that arrives as it was sent, or else what it says."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - an error may be of anybody's making
        return PenstockError(f"{type(error).__name__}: {error}")
    return error
