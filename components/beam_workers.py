"""Beam's local worker processes: when one dies, the run must end.

    worker ─✕─► its control stream breaks ─► Beam 2.62's reading thread ends, and whoever waits for an answer waits on

Beam gives up the answers that are still awaited only for containers (`ControlConnection.abort`). Here that is done for
processes too: the wait ends in an error that says so.
"""

from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from components.errors import PenstockError

_SAID = (
    "a Beam worker process died, killed perhaps for want of memory; nothing of this step was published. "
    "Run again, with fewer workers (-- --direct_num_workers=1) if it happens once more"
)


def watch() -> None:
    """Makes the death of a worker end the pipeline that waits for it. May be called often."""
    connection: Any = worker_handlers.ControlConnection
    if hasattr(connection, "died"):
        return
    read, push = connection._read, connection.push  # noqa: SLF001 - Beam offers no other place to hear of it

    def read_and_tell(self: Any) -> None:
        try:
            read(self)
        except grpc.RpcError:
            self.died = PenstockError(_SAID)
            self.abort(self.died)

    def push_unless_dead(self: Any, request: Any) -> Any:
        answer = push(self, request)
        if answer is not None and self.died is not None:  # it died with nothing to do: no one was told
            answer.abort(self.died)
        return answer

    connection.died, connection._read, connection.push = None, read_and_tell, push_unless_dead  # noqa: SLF001
