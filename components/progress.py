"""Progress and warnings of a running node, reported to one listener in the same process."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
_warn: list[Callable[[str], None]] = []


def listen(listener: Listener) -> None:
    """Sets the listener of this process."""
    _listeners[:] = [listener]


def report(done: int, total: int | None = None, note: str = "", seconds: float | None = None) -> None:
    """Reports progress to the listener, if there is one."""
    for listener in _listeners:
        listener(Progress(done, total, note, seconds))


@contextmanager
def warnings_to(show: Callable[[str], None]) -> Iterator[None]:
    """Passes warnings to `show` within the block."""
    _warn.append(show)
    try:
        yield
    finally:
        _warn.remove(show)


def warn(message: str) -> None:
    """Shows a warning to the user: through the innermost `warnings_to`, else on standard error."""
    if _warn:
        _warn[-1](message)
    else:
        print(f"penstock: warning: {message}", file=sys.stderr)
