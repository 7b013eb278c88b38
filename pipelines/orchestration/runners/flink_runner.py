"""Beam's portable runner for Flink, watched: progress, no progress, cancel, a lost job server, errors of workers.

submit ─► job on Flink ─┬─ every second: what the job has done, from Flink's REST service ─► progress
                        ├─ nothing new for engine.timeout_minutes ─────┐
                        ├─ Ctrl-C, SIGTERM ────────────────────────────┼─► end job and workers (engine/jobs.py), raise
                        ├─ job server gone ────────────────────────────┘
                        └─ a worker raised ─► the same error here, with its exit code
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from apache_beam.runners.portability.portable_runner import JobServiceHandle, PortableRunner

from components import errors, progress
from components.errors import JobFailed, PenstockError, WorkerLost
from components.progress import Progress
from components.training import interrupt
from pipelines.engine import jobs
from pipelines.engine.rest import Flink, Job, Unreachable
from pipelines.orchestration.runners.distributed_read import DistributeReads

_POLL_SECONDS = 1.0
_ANSWER_SECONDS = 10.0  # for a request to the job server while a job is cancelled
_OVER = ("DONE", "FAILED", "CANCELLED")  # states of the job server
_OURS = re.compile(r"^components\.errors\.(\w+): ", re.MULTILINE)
_STEP = re.compile(r" \[while running '[^']*'\]$")  # Beam's end of a message
_AFTER = re.compile(r"\s+at |Traceback |Caused by: |During handling |The above exception |\s+\.\.\. \d+ more")
_PYTHON = re.compile(r"^(?:[\w.]+Error|[\w.]+Exception|[\w.]+Interrupt): .*$", re.MULTILINE)
# What obstore, Beam's S3 client and TensorFlow say if a store refuses the credentials of a worker.
_REFUSED = re.compile(r"\b(403|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|NoCredentialsError)\b")
_WORKERS_SETTINGS = (
    " (a worker on Flink says so: it has the environment variables of the shell that started the engine; "
    "set them there, then stop and start the engine)"
)


class FlinkRunner(PortableRunner):
    """Runs one pipeline as one Flink job with a name that no other job has."""

    def __init__(self, job: str, node: str, rest: str, timeout_minutes: float, notes: Path | None = None) -> None:
        """Takes what is known about a job.

        Args:
            job: its name.
            node: of the pipeline.
            rest: address of Flink's REST service; empty if it is not known.
            timeout_minutes: without progress, after which it is cancelled.
            notes: folder of the note of a job that runs.
        """
        super().__init__()
        flink = Flink(rest) if rest else None
        self._monitor = _JobMonitor(job, node, flink, timeout_minutes * 60, jobs.Note(notes, rest, job))

    def run_pipeline(self, pipeline: Any, options: Any) -> Any:
        """Distributes the reads of a pipeline, and runs it."""
        pipeline.replace_all([DistributeReads()])
        return super().run_pipeline(pipeline, options)

    def create_job_service_handle(self, job_service: Any, options: Any) -> JobServiceHandle:
        """Returns a handle that notes when the job server is asked to start the job."""
        monitor = self._monitor

        class Noting(JobServiceHandle):
            def run(self, preparation_id: str) -> Any:
                monitor.submit()
                return super().run(preparation_id)

        return Noting(job_service, options)

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> Any:
        """Submits the pipeline, and returns a result whose `wait_until_finish` watches the job."""
        with self._monitor.cancelling(), self._monitor.explained():
            return _Watched(super().run_portable_pipeline(pipeline, options), self._monitor)


class _Watched:
    """A pipeline's result that is watched while somebody waits for it."""

    def __init__(self, result: Any, monitor: "_JobMonitor") -> None:
        self._result, self._monitor = result, monitor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result, name)

    def wait_until_finish(self, duration: int | None = None) -> Any:
        del duration  # no caller sets it
        with self._monitor.cancelling(self._result):
            return self._monitor.wait(self._result)


class _JobMonitor:
    """What is known about one job."""

    def __init__(
        self, name: str, node: str, flink: Flink | None, timeout: float, note: jobs.Note | None = None
    ) -> None:
        self._name, self._node, self._flink, self._timeout = name, node, flink, timeout
        self._note, self._submitted = note or jobs.Note(None, "", name), False
        self._job: Job | None = None
        self._last: Any = None
        self._changed = time.monotonic()

    def submit(self) -> None:
        """Notes that the job may run from now on."""
        self._submitted = True
        self._note.write()

    @contextlib.contextmanager
    def cancelling(self, result: Any = None) -> Iterator[None]:
        """Ends the job and its workers if the block is left by an error: nothing writes after that.

        If they do not end, NotCancelled is raised instead of the error. Signals have no effect meanwhile.
        """
        try:
            yield
        except BaseException as error:
            if self._submitted:
                with interrupt.ignored():
                    self._end(result, has_ended=isinstance(error, JobFailed))
                    self._note.remove()
            raise

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turns an error of the job server into one of ours."""
        import grpc  # type: ignore[import-untyped]

        try:
            yield
        except grpc.FutureTimeoutError as error:  # no connection at all
            raise WorkerLost(
                f"Beam's job server did not answer when the job of {self._node} was submitted; nothing was published. "
                "Start the engine again (`penstock engine stop flink`, `penstock engine start flink`), and run again"
            ) from error
        except grpc.RpcError as error:
            if _is_lost(error):
                self._raise(error)
            raise PenstockError(
                f"Beam's job server did not take the job of {self._node} ({error.code().name} {error.details()}); "
                "expected the job server of Beam 2.62.0. The reason is in its log (`penstock engine status flink`)"
            ) from error

    def wait(self, result: Any) -> Any:
        """Returns the final state of the job; raises what the job failed with."""
        ended: list[BaseException | None] = []

        def wait() -> None:
            try:
                result.wait_until_finish()
                ended.append(None)
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                ended.append(error)

        thread = threading.Thread(target=wait, name="flink-job", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            self._poll()
        if ended[0] is not None:
            self._raise(ended[0])
        self._note.remove()
        return result._state  # noqa: SLF001 - asking again would be a request to a server that may be gone

    def _poll(self) -> None:
        """Reports progress; raises PenstockError if there was none for too long."""
        if self._flink is None:
            return
        with contextlib.suppress(Unreachable):  # the job server says so if the whole cluster is gone
            self._job = self._flink.job(self._name)
            if self._job is not None and self._job.state == "RESTARTING":
                self._raise_ours(self._failure())
            done = self._flink.vertices(self._job.id) if self._job else []
            now = [(each["status"], each["metrics"], each.get("tasks")) for each in done]
            counted = [(status, {k: v for k, v in m.items() if "time" not in k}, t) for status, m, t in now]
            if counted != self._last:
                self._last, self._changed = counted, time.monotonic()
                progress.report(_progress(done))
        if time.monotonic() - self._changed > self._timeout:
            raise PenstockError(
                f"{self._node} made no progress on Flink for {self._timeout / 60:g} minutes and was cancelled "
                f"(job {self._name}); see the logs of task managers and workers, or raise engine.timeout_minutes"
            )

    def _end(self, result: Any, has_ended: bool) -> None:
        """Ends the job, if it runs, and its workers."""
        if has_ended:
            jobs.end_workers(self._flink.address if self._flink else "", self._name)
            return
        progress.say(f"cancelling the Flink job {self._name} and waiting until it has ended")
        if result is not None:
            _within(_ANSWER_SECONDS, result.cancel)
        if self._flink is not None:
            jobs.end(self._flink, self._name, lambda: result is None or _is_over(result))
            return
        end = time.monotonic() + _ANSWER_SECONDS
        while result is not None and not _is_over(result) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        jobs.end_workers("", self._name)

    def _raise(self, error: BaseException) -> None:
        """Raises what ended the job: an error of ours, the last line of a worker's traceback, or what Beam says."""
        if _is_lost(error):
            raise WorkerLost(
                f"Beam's job server stopped answering while {self._node} ran; the Flink job was cancelled and nothing "
                "was published. Start the engine again (`penstock engine stop flink`, `penstock engine start flink`)"
            ) from error
        failure = self._failure()
        self._raise_ours(failure)
        self._raise_ours(str(error))
        text = f"{failure}\n{error}"
        python = _PYTHON.findall(text)
        what = python[-1] if python else str(error).strip().splitlines()[0]
        if _REFUSED.search(what):
            raise errors.BadInput(
                f"{self._node}: an object store refused a worker: {what}{_WORKERS_SETTINGS}"
            ) from error
        raise JobFailed(f"{self._node} failed on Flink (job {self._name}): {what}") from error

    @staticmethod
    def _raise_ours(text: str) -> None:
        """Raises the error of ours that a worker's traceback ends with, if there is one: Flink would try it again."""
        for found in list(_OURS.finditer(text))[-1:]:
            kind = getattr(errors, found[1], None)
            if isinstance(kind, type) and issubclass(kind, PenstockError):
                hint = _WORKERS_SETTINGS if kind is errors.SettingsError else ""
                raise kind(_message(text[found.end() :]) + hint)

    def _failure(self) -> str:
        if self._flink is None or self._job is None:
            return ""
        try:
            return self._flink.failure(self._job.id)
        except Unreachable:
            return ""


def _message(text: str) -> str:
    """Returns the message, of one or more lines, that a text of a Java or Python error begins with."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and _AFTER.match(line):
            break
        lines.append(_STEP.sub("", line))
        if lines[-1] != line:
            break
    return "\n".join(lines).rstrip()


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """Returns what a request to the job server returns; None if it fails or takes longer."""
    found: list[Any] = []

    def ask() -> None:
        with contextlib.suppress(Exception):  # the error that led to the cancel is raised
            found.append(call())

    thread = threading.Thread(target=ask, name="job-server", daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else None


def _is_over(result: Any) -> bool:
    """Whether the job server has given up a job, or does not answer."""
    return _within(_ANSWER_SECONDS, lambda: result.state) in (None, *_OVER)


def _is_lost(error: BaseException) -> bool:
    import grpc

    return isinstance(error, grpc.RpcError) and error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def _progress(vertices: list[dict[str, Any]]) -> Progress:
    finished = sum(each["status"] == "FINISHED" for each in vertices)
    moved = sum(int(each["metrics"].get("write-records", 0)) for each in vertices)
    # No count of records, from which a rate would be shown: an element may be a batch, a partial sum or a file.
    return Progress(0, place=f"Flink stage {finished}/{len(vertices)}  {moved:,} elements" if vertices else "Flink")
