"""Beam's local worker processes: their death, their network, and what they import.

    worker ─✕─► its control stream breaks ─► Beam 2.62's reading thread ends, and pending requests wait forever

Beam aborts pending requests only for workers in containers (`ControlConnection.abort`). Here they are aborted for
worker processes as well. Beam's servers listen on all interfaces, without authentication; here on loopback alone.
Beam starts a worker with `python -m`, which searches the working folder first; here as any other helper process.
Beam 2.62 has an option for none of the three: docs/adr/0025.
"""

import contextlib
import shlex
from typing import Any

import apache_beam as beam
import grpc  # type: ignore[import-untyped]
import grpc._server as grpc_server  # type: ignore[import-untyped]
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.direct.direct_runner import DirectRunner
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import data_plane
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from components import helper_process
from components.errors import WorkerLost

_WORKER_MODULE = "apache_beam.runners.worker.sdk_worker_main"

_WORKER_DIED = (
    "a Beam worker process died, possibly out of memory; no output of this node was published. "
    "Run again; if it happens again, use fewer workers (-- --direct_num_workers=1)"
)


def prepare() -> None:
    """Changes how Beam runs worker processes in this process; call it before a pipeline runs. Can be repeated."""
    if not hasattr(worker_handlers.ControlConnection, "died"):
        _end_with_a_dead_worker()
        _listen_on_loopback()
        _isolate_workers()


def runs_here(pipeline: beam.Pipeline) -> bool:
    """Whether a pipeline would run in this process, without workers."""
    workers = pipeline.options.view_as(DirectOptions).direct_num_workers
    return isinstance(pipeline.runner, DirectRunner) and workers == 1


class CountRecords(beam.DoFn):
    """Adds up the records of work units in a metric of the job, which the pages of an engine show."""

    def __init__(self, namespace: str) -> None:
        """Names the metric."""
        self._records = beam.metrics.Metrics.counter(namespace, "records")

    def process(self, records: int) -> tuple[()]:
        """Adds the records of one unit."""
        self._records.inc(records)
        return ()


def _listen_on_loopback() -> None:
    server: Any = grpc_server._Server  # noqa: SLF001 - Beam sets the address, and gRPC has no other hook
    bind = server.add_insecure_port
    server.add_insecure_port = lambda self, address: bind(self, address.replace("[::]:", "localhost:"))


def _isolate_workers() -> None:
    from_command: Any = SubprocessSDKEnvironment.from_command_string

    def isolated(command_string: str) -> Any:
        is_worker = command_string.endswith(f"-m {_WORKER_MODULE}")
        return from_command(shlex.join(helper_process.module(_WORKER_MODULE)) if is_worker else command_string)

    SubprocessSDKEnvironment.from_command_string = staticmethod(isolated)


def _end_with_a_dead_worker() -> None:
    connection: Any = worker_handlers.ControlConnection
    future: Any = worker_handlers.ControlFuture
    read, push = connection._read, connection.push  # noqa: SLF001 - Beam has no public hook for this
    is_done = future.is_done

    def read_then_abort(self: Any) -> None:
        with contextlib.suppress(grpc.RpcError):
            read(self)
        # A broken stream raises or just ends, depending on gRPC. After a regular shutdown nothing is pending.
        self.died = WorkerLost(_WORKER_DIED)
        for answer in list(self._futures_by_id.values()):  # a copy: other threads add requests meanwhile
            answer.abort(self.died)

    def push_unless_dead(self: Any, request: Any) -> Any:
        answer = push(self, request)
        if answer is not None and self.died is not None:  # it died while nothing was pending
            answer.abort(self.died)
        return answer

    def is_done_or_aborted(self: Any) -> bool:
        # Code that waits for a worker's data polls this, then reads the answer, which raises.
        return self._exception is not None or is_done(self)

    channel: Any = data_plane._GrpcDataChannel  # noqa: SLF001
    input_elements = channel.input_elements

    def elements_until_dead(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            yield from input_elements(self, *arguments, **options)
        except RuntimeError as error:
            if self._closed:  # its stream of data broke before the other one
                raise WorkerLost(_WORKER_DIED) from error
            raise

    channel.input_elements = elements_until_dead
    connection.died, connection._read, connection.push = None, read_then_abort, push_unless_dead  # noqa: SLF001
    future.is_done = is_done_or_aborted
