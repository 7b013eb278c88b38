"""What a node says while it works. Without a listener, and in another process, it says nothing."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a node is."""

    done: int  # records
    total: int | None = None
    note: str = ""  # such as "epoch 3/12"


Listener = Callable[[Progress], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Makes `listener` the one that hears of progress in this process."""
    _listeners[:] = [listener]


def report(done: int, total: int | None = None, note: str = "") -> None:
    """Tells the listener, if there is one, how far the node is."""
    for listener in _listeners:
        listener(Progress(done, total, note))
