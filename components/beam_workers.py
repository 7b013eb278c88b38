"""Beam's local worker processes: if one dies, the run ends with an error instead of waiting forever.

    worker ─✕─► its control stream breaks ─► Beam 2.62's reading thread ends, and pending requests wait forever

Beam aborts pending requests only for workers in containers (`ControlConnection.abort`). Here they are aborted for
worker processes as well.
"""

import contextlib
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from components.errors import PenstockError

_WORKER_DIED = (
    "a Beam worker process died, possibly out of memory; no output of this node was published. "
    "Run again; if it happens again, use fewer workers (-- --direct_num_workers=1)"
)


def watch() -> None:
    """Makes the death of a worker end the pipeline that waits for it. Can be called repeatedly."""
    connection: Any = worker_handlers.ControlConnection
    future: Any = worker_handlers.ControlFuture
    if hasattr(connection, "died"):
        return
    read, push = connection._read, connection.push  # noqa: SLF001 - Beam has no public hook for this
    is_done = future.is_done

    def read_then_abort(self: Any) -> None:
        with contextlib.suppress(grpc.RpcError):
            read(self)
        # A broken stream raises or just ends, depending on gRPC. After a regular shutdown nothing is pending.
        self.died = PenstockError(_WORKER_DIED)
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

    connection.died, connection._read, connection.push = None, read_then_abort, push_unless_dead  # noqa: SLF001
    future.is_done = is_done_or_aborted
