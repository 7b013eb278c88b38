"""Beam's local worker processes: when one dies, the run must end.

    worker ─✕─► its control stream breaks ─► Beam 2.62's reading thread ends, and whoever waits for an answer waits on

Beam gives up the answers that are still awaited only for containers (`ControlConnection.abort`). Here that is done for
processes too: the wait ends in an error that says so.
"""

import contextlib
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import statesampler

from components.errors import PenstockError

_LOOK_MS = 5
_SAID = (
    "a Beam worker process died, killed perhaps for want of memory; nothing of this step was published. "
    "Run again, with fewer workers (-- --direct_num_workers=1) if it happens once more"
)


def watch() -> None:
    """Makes the death of a worker end the pipeline that waits for it. May be called often."""
    connection: Any = worker_handlers.ControlConnection
    future: Any = worker_handlers.ControlFuture
    if hasattr(connection, "died"):
        return
    read, push = connection._read, connection.push  # noqa: SLF001 - Beam offers no other place to hear of it
    is_done = future.is_done

    def read_and_tell(self: Any) -> None:
        with contextlib.suppress(grpc.RpcError):
            read(self)
        # A broken stream raises or just ends, whichever gRPC sees first. No one waits for one sent home.
        self.died = PenstockError(_SAID)
        for answer in list(self._futures_by_id.values()):  # a copy: others go on asking meanwhile
            answer.abort(self.died)

    def push_unless_dead(self: Any, request: Any) -> Any:
        answer = push(self, request)
        if answer is not None and self.died is not None:  # it died with nothing to do: no one was told
            answer.abort(self.died)
        return answer

    def is_done_or_given_up(self: Any) -> bool:
        # Whoever waits for a worker's data asks this, and asks for the answer if so.
        return self._exception is not None or is_done(self)

    connection.died, connection._read, connection.push = None, read_and_tell, push_unless_dead  # noqa: SLF001
    future.is_done = is_done_or_given_up


def end_soon() -> None:
    """Lets a stage in this process end when its work does.

    Beam measures where time goes by a thread that sleeps up to a fifth of a second between looks, and waits for it to
    wake up when a stage is done: 0.1 s of each.
    """
    sampler: Any = statesampler.StateSampler.__init__
    sampler.__defaults__ = (_LOOK_MS,)
