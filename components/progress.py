"""Progress, messages and warnings of a running node, reported to one listener in the same process."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How many records a node has processed."""

    done: int  # records
    total: int | None = None
    note: str = ""  # such as "loss 0.512"
    seconds: float | None = None  # that the records took, if that is not the time since the start of the node
    place: str = ""  # of training, shown instead of the number of records: "epoch 3/12  step 118/250"
    left: float | None = None  # seconds to the end, estimated


Listener = Callable[[Progress], None]
_listeners: list[Listener] = []
_say: list[Callable[[str], None]] = []
_warn: list[Callable[[str], None]] = []


def listen(listener: Listener, say: Callable[[str], None]) -> None:
    """Sets what shows the progress and the messages of this process."""
    _listeners[:], _say[:] = [listener], [say]


@contextmanager
def listening(listener: Listener, say: Callable[[str], None]) -> Iterator[None]:
    """Shows the progress and the messages of this process within the block."""
    before = _listeners[:], _say[:]
    listen(listener, say)
    try:
        yield
    finally:
        _listeners[:], _say[:] = before


def report(progress: Progress) -> None:
    """Reports progress to the listener, if there is one."""
    for listener in _listeners:
        listener(progress)


def say(message: str) -> None:
    """Shows a message to the user, once: through the listener, else on standard error."""
    for show in _say or [lambda text: print(f"penstock: {text}", file=sys.stderr)]:
        show(message)


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
