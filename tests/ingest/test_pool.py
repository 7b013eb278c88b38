"""Worker processes answer, pass errors on, die with their parent, and import no file of the user for Python's own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from components.errors import PenstockError
from components.ingest.pool import Pool, WorkerDied, WorkerFailed

FUNCTIONS = """
import os, signal, time
from components.ingest import pool

def count(number):
    yield from range(number)

def fail(reason):
    yield "before"
    raise FileNotFoundError(2, reason)

class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

def fail_oddly():
    raise Odd("one", "two")
    yield

def die(how):
    yield os.getpid()
    os.kill(os.getpid(), how)
    time.sleep(60)

def twice(question):
    yield pool.ask(question, 2)

class Trap:
    def __reduce__(self):
        return exec, ("raise AssertionError('unpickled')",)

def send_a_trap():
    import pickle
    yield pickle.dumps(Trap())

def garble(message):
    pool._parent.send_bytes(message)
    time.sleep(60)
    yield

def die_in_a_message():
    import struct
    os.write(pool._parent.fileno(), struct.pack("!i", 1000) + b"half")
    os.kill(os.getpid(), signal.SIGKILL)
    yield

def modules():
    import json, numpy
    yield json.__file__, numpy.__file__
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with functions that a worker can run."""
    (tmp_path / "functions_of_a_test.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    return "functions_of_a_test"


@pytest.fixture
def pool() -> Iterator[Pool]:
    """An empty pool."""
    with Pool() as empty:
        yield empty


def test_a_worker_is_called_as_often_as_needed(functions: str, pool: Pool) -> None:
    """One process answers one call after another."""
    with pool.lease() as first:
        assert list(first.call(f"{functions}:count", 3)) == [0, 1, 2]
        assert list(first.call(f"{functions}:count", 2)) == [0, 1]
    with pool.lease() as second:
        assert second is first


def test_a_worker_can_ask_its_caller(functions: str, pool: Pool) -> None:
    """The question goes to `answer`."""
    with pool.lease() as worker:
        assert list(worker.call(f"{functions}:twice", "ab", answer=lambda text, times: text * times)) == ["abab"]


def test_an_error_of_the_function_is_raised_by_the_call(functions: str, pool: Pool) -> None:
    """With its own type: a full disk is recognised as one."""
    with pytest.raises(FileNotFoundError, match="no plan"), pool.lease() as worker:
        list(worker.call(f"{functions}:fail", "no plan"))


def test_an_error_that_cannot_be_pickled_keeps_its_message(functions: str, pool: Pool) -> None:
    """Its type is named."""
    with pytest.raises(PenstockError, match="Odd: one and two"), pool.lease() as worker:
        list(worker.call(f"{functions}:fail_oddly"))


@pytest.mark.parametrize(
    ("how", "message"),
    [(signal.SIGKILL, "killed by SIGKILL, possibly out of memory"), (signal.SIGSEGV, r"killed by SIGSEGV\)")],
)
def test_a_worker_that_dies_ends_the_call(functions: str, pool: Pool, how: signal.Signals, message: str) -> None:
    """B11: the call does not wait for ever, and says what happened."""
    with pytest.raises(WorkerDied, match=message), pool.lease() as worker:
        list(worker.call(f"{functions}:die", how))


def test_an_idle_worker_that_died_is_replaced(functions: str, pool: Pool) -> None:
    """The next call has nothing to do with its death."""
    pool.start(1)
    [idle] = pool._idle
    psutil.Process(idle._process.pid).kill()
    idle._process.wait()

    with pool.lease() as worker:
        assert list(worker.call(f"{functions}:count", 1)) == [0]


def test_a_reply_that_is_not_read_to_its_end_is_not_the_next_one(functions: str, pool: Pool) -> None:
    """A worker whose caller stopped half way is ended."""
    with contextlib.suppress(KeyError), pool.lease() as first:
        next(first.call(f"{functions}:count", 3))
        raise KeyError
    with pool.lease() as second:
        assert list(second.call(f"{functions}:count", 1)) == [0]
    assert (second is first, first.alive()) == (False, False)


def test_a_closed_pool_leaves_no_process(functions: str) -> None:
    """Neither idle workers nor those of a finished call."""
    with Pool() as pool:
        pool.start(2)
        with pool.lease() as worker:
            list(worker.call(f"{functions}:count", 1))
        workers = [worker, *pool._idle]

    assert [each.alive() for each in workers] == [False] * len(workers)


def test_files_of_the_user_are_not_imported_for_those_of_a_library(
    functions: str, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working folder may hold anything, such as a json.py."""
    for name in ("io", "json", "struct", "pickle", "numpy"):
        (tmp_path / "work" / f"{name}.py").parent.mkdir(exist_ok=True)
        (tmp_path / "work" / f"{name}.py").write_text("raise SystemExit('imported by a worker')")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", ["", *sys.path])

    with pool.lease() as worker:
        [found] = worker.call(f"{functions}:modules")
    assert [Path(file).parent.name for file in found] == ["json", "numpy"]


def test_a_worker_ends_with_its_parent(functions: str) -> None:
    """Also if the parent is killed and cannot end it."""
    code = (
        "import time; from components.ingest.pool import WorkerProcess; worker = WorkerProcess(); "
        f"list(worker.call('{functions}:count', 1)); print(worker._process.pid, flush=True); time.sleep(60)"
    )
    search = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=search)
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()

    psutil.wait_procs([worker], timeout=60)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_nothing_that_a_worker_sends_is_unpickled(functions: str, pool: Pool) -> None:
    """A crafted file may take a worker over: it must not run code in the process that started it."""
    with pool.lease() as worker:
        [sent] = worker.call(f"{functions}:send_a_trap")

    assert isinstance(sent, bytes)


def test_an_invalid_message_is_an_error(functions: str, pool: Pool) -> None:
    """Not an answer, and not a traceback of the parser."""
    with pytest.raises(WorkerFailed, match="sent an invalid message"), pool.lease() as worker:
        list(worker.call(f"{functions}:garble", b"j{not JSON"))


def test_a_worker_that_dies_in_the_middle_of_a_message_is_named(functions: str, pool: Pool) -> None:
    """As when it is killed while it sends a large batch."""
    with pytest.raises(WorkerDied, match="killed by SIGKILL, possibly out of memory"), pool.lease() as worker:
        list(worker.call(f"{functions}:die_in_a_message"))
