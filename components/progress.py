"""Progress of a running node, reported to one listener in the same process."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How many records a node has processed."""

    done: int  # records
    total: int | None = None
    note: str = ""  # such as "epoch 3/12"
    seconds: float | None = None  # that the records took, if that is not the time since the start of the node


Listener = Callable[[Progress], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Sets the listener of this process."""
    _listeners[:] = [listener]


def report(done: int, total: int | None = None, note: str = "", seconds: float | None = None) -> None:
    """Reports progress to the listener, if there is one."""
    for listener in _listeners:
        listener(Progress(done, total, note, seconds))
