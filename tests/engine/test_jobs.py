"""The end of a job: Flink's REST service is a small HTTP server that answers as set up, workers are real processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from components.errors import Cancelled
from components.training import interrupt
from pipelines.engine import cluster, jobs, places
from pipelines.engine.rest import Flink, Unreachable
from pipelines.orchestration.runners.flink_runner import _JobMonitor

pytestmark = pytest.mark.slow

NAME = "penstock-text-ingest-1"


@dataclass
class Cluster:
    """What the server answers: the states of the job, one per question, the last one for ever; "" is no job."""

    address: str = ""
    states: list[str] = field(default_factory=lambda: ["RUNNING"])
    after: str = "CANCELED"  # the state after a cancel
    refused: int = 202  # HTTP status of a cancel
    bodies: list[bytes] = field(default_factory=list)  # broken answers before the first right one
    cancelled: list[str] = field(default_factory=list)
    on_cancel: Callable[[], None] = lambda: None

    def overview(self) -> bytes:
        """Returns what Flink says about all jobs."""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        job = {"jid": "7", "name": NAME, "state": state, "start-time": 1, "duration": 1}
        return json.dumps({"jobs": [job] if state else []}).encode()


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A REST service; no engine of this machine is known, and waiting is short."""
    answers = Cluster()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if answers.bodies:
                self._answer(503 if not answers.bodies[0] else 200, answers.bodies.pop(0))
            else:
                self._answer(200, answers.overview())

        def do_PATCH(self) -> None:
            answers.cancelled.append(self.path)
            answers.states[:] = [answers.after]
            answers.on_cancel()
            self._answer(answers.refused, b"{}")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) + 100 * (body == b"cut")))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv(places.VARIABLE, str(tmp_path / "none"))
    for name in ("_GRACE", "_MARGIN", "_POLL"):
        monkeypatch.setattr(jobs, name, 0.05)
    monkeypatch.setattr(jobs, "IDLE_MS", 0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    answers.address = f"http://127.0.0.1:{server.server_port}"
    yield answers
    server.shutdown()
    server.server_close()


def test_a_job_that_flink_lists_later_is_cancelled(remote: Cluster) -> None:
    """The job server translates the pipeline first; until it has given up, the job may start."""
    remote.states = ["", "", "", "CREATED"]
    given_up = iter([False, False, False, True])
    jobs.end(Flink(remote.address), NAME, lambda: next(given_up))

    assert len(remote.cancelled) == 1


def test_a_job_that_never_starts_is_not_waited_for_longer_than_the_grace_time(remote: Cluster) -> None:
    """Nothing is cancelled."""
    remote.states = [""]
    jobs.end(Flink(remote.address), NAME)

    assert remote.cancelled == []


def test_answers_that_fail_while_a_job_is_cancelled_are_asked_for_again(remote: Cluster) -> None:
    """Status 503, an answer that is cut off, and one that is no JSON."""
    remote.bodies = [b"", b"cut", b"<html>"]
    jobs.end(Flink(remote.address), NAME)

    assert len(remote.cancelled) == 1


@pytest.mark.parametrize("body", [b"", b"cut", b"<html>"])
def test_any_wrong_answer_is_unreachable(remote: Cluster, body: bytes) -> None:
    """No error of Python's HTTP or JSON library leaves the client."""
    remote.bodies = [body]
    with pytest.raises(Unreachable, match=remote.address):
        Flink(remote.address).jobs()


@pytest.mark.parametrize("status", [404, 409])
def test_a_job_that_has_ended_cannot_be_cancelled_which_is_no_error(remote: Cluster, status: int) -> None:
    """It ended between question and request."""
    remote.refused = status
    jobs.end(Flink(remote.address), NAME)

    assert len(remote.cancelled) == 1


def test_a_job_that_is_not_cancelled_in_time_is_an_error_that_names_it(
    remote: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still write, so the error is not that of the run."""
    monkeypatch.setattr(jobs, "_LIMIT", 0.2)
    remote.after = "CANCELLING"
    monitor = _JobMonitor(NAME, "Ingest", Flink(remote.address), 60)
    monitor.submit()
    expected = f"{NAME} was not cancelled within 0.2 s .it is CANCELLING"
    with pytest.raises(jobs.NotCancelled, match=expected), monitor.cancelling():
        raise Cancelled(signal.SIGINT)


def test_a_second_signal_does_not_leave_the_cancel(remote: Cluster) -> None:
    """SIGTERM, then Ctrl-C while Flink cancels: the job has ended, and the first signal decides the exit code."""

    def interrupt_again() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        if len(remote.cancelled) == 1:
            remote.states[:] = ["CANCELLING", "CANCELLING", "CANCELED"]

    remote.on_cancel = interrupt_again
    monitor = _JobMonitor(NAME, "Ingest", Flink(remote.address), 60)
    monitor.submit()
    with pytest.raises(Cancelled) as caught, interrupt.raised(), monitor.cancelling():
        raise Cancelled(signal.SIGTERM)

    assert caught.value.signum == signal.SIGTERM
    assert len(remote.cancelled) > 1


def test_nothing_is_cancelled_before_anything_was_submitted(remote: Cluster) -> None:
    """An error while the pipeline is prepared is raised at once."""
    with pytest.raises(Cancelled), _JobMonitor(NAME, "Ingest", Flink(remote.address), 60).cancelling():
        raise Cancelled(signal.SIGINT)

    assert remote.states == ["RUNNING"]
    assert remote.cancelled == []


def test_the_job_of_a_killed_run_is_ended_by_the_next_one(remote: Cluster, tmp_path: Path) -> None:
    """It is noted from its submission on; a second run finds nothing any more."""
    _JobMonitor(NAME, "Ingest", Flink(remote.address), 60, jobs.Note(tmp_path, remote.address, NAME)).submit()
    said: list[str] = []
    for _ in range(2):
        jobs.end_left(tmp_path, said.append)

    assert said == [f"cancelled the Flink job {NAME}, which a run that was killed had left"]
    assert len(remote.cancelled) == 1


@pytest.mark.parametrize(("after", "kept"), [("CANCELED", False), ("CANCELLING", True)])
def test_the_note_of_a_job_stays_until_it_has_ended(
    after: str, kept: bool, remote: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a job that was not cancelled in time, too."""
    monkeypatch.setattr(jobs, "_LIMIT", 0.2)
    remote.after = after
    monitor = _JobMonitor(NAME, "Ingest", Flink(remote.address), 60, jobs.Note(tmp_path, remote.address, NAME))
    monitor.submit()
    with pytest.raises((Cancelled, jobs.NotCancelled)), monitor.cancelling():
        raise Cancelled(signal.SIGINT)

    assert bool(list(tmp_path.glob("flink-job.json"))) is kept


@pytest.mark.parametrize(("rest", "said"), [("http://127.0.0.1:1", 0), ("http://flink.invalid:1", 1)])
def test_a_cluster_that_does_not_answer_is_said_unless_it_was_this_machines_engine(
    rest: str, said: int, tmp_path: Path
) -> None:
    """Jobs end with the engine; those of another cluster may still run, and are noted on."""
    jobs.Note(tmp_path, rest, NAME).write()
    messages: list[str] = []
    jobs.end_left(tmp_path, messages.append)

    assert len(messages) == said
    assert len(list(tmp_path.glob("flink-job.json"))) == said


class _Result:
    """A pipeline's result, as far as it is asked while a job is cancelled."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    @property
    def state(self) -> str:
        return "CANCELLED" if self.cancelled else "RUNNING"


def test_the_job_server_is_told_first(remote: Cluster) -> None:
    """Else it could hand the job to Flink after the end of the run."""
    remote.states = [""]
    monitor, result = _JobMonitor(NAME, "Ingest", Flink(remote.address), 60), _Result()
    monitor.submit()
    with pytest.raises(Cancelled), monitor.cancelling(result):
        raise Cancelled(signal.SIGINT)

    assert result.cancelled


@pytest.fixture
def manager() -> Iterator[tuple[psutil.Process, psutil.Process]]:
    """A process in the place of a task manager, and the worker that it has started."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    reaping = "import signal, subprocess; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    program = f"{reaping}; print(subprocess.Popen({sleep!r}).pid, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        try:
            yield psutil.Process(parent.pid), worker
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
            parent.kill()


def test_workers_of_this_machine_are_ended_with_their_job(
    manager: tuple[psutil.Process, psutil.Process],
    remote: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that their logs name for the job, and that a task manager has started; a number given to others is not."""
    process, worker = manager
    monkeypatch.setenv(places.VARIABLE, str(tmp_path))
    (tmp_path / "logs").mkdir()
    places.write(
        places.EngineState(remote.address, "127.0.0.1:1", "", 1, 1, (cluster.identified("taskmanager-1", process.pid),))
    )
    log = tmp_path / "logs" / f"worker-taskmanager-1-{worker.pid}.log"
    log.write_text(json.dumps({"job": "another", "worker": "1-1", "pid": worker.pid}) + "\n")
    (tmp_path / "logs" / "worker-x-1.log").write_text(json.dumps({"job": NAME, "pid": os.getpid()}) + "\n")
    jobs.end(Flink(remote.address), NAME)
    assert worker.is_running()

    log.write_text(json.dumps({"job": NAME, "worker": "1-1", "pid": worker.pid}) + "\n")
    jobs.end(Flink(remote.address), NAME)
    assert not worker.is_running()
    assert process.is_running()
