"""Sends what is in the outbox of a pipeline, within a time limit; what cannot be sent stays there."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import filelock

from pipelines.notify.notification import Notification
from pipelines.notify.receivers import Answer, Receiver
from pipelines.notify.state import NotifyState, StateFile

_PAUSES = (0.5, 2.0)  # seconds between attempts


@dataclass(frozen=True)
class Pace:
    """How time passes; tests have their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def deliver(file: StateFile, receivers: Sequence[Receiver], seconds: float, pace: Pace) -> list[str]:
    """Sends all pending notifications, oldest first; returns what went wrong, one line per receiver.

    Each receiver has its share of the time, and what those before it have left.
    """
    start = pace.now()
    lock = filelock.FileLock(file.path.with_suffix(".sending.lock"))
    try:
        lock.acquire(timeout=seconds)
    except filelock.Timeout:  # another process sends them
        return []
    except OSError:  # a full or read-only disk: perhaps sent twice, but sent
        pass
    try:
        ends = [start + seconds * (number + 1) / len(receivers) for number in range(len(receivers))]
        problems = [_to(receiver, file, end, pace) for receiver, end in zip(receivers, ends, strict=True)]
    finally:
        lock.release()
    return [problem for problem in problems if problem]


def attempt(receiver: Receiver, notification: Notification, end: float, pace: Pace) -> Answer:
    """Sends a notification, again if that may help, until the time is up."""
    answer = Answer(False, "the time is up", try_again=True)
    for pause in (*_PAUSES, 0.0):
        if (left := end - pace.now()) <= 0:
            break
        answer = receiver.send(notification, left)
        if answer.is_taken or not answer.try_again or not pause or pace.now() + pause >= end:
            break
        pace.sleep(pause)
    return answer


def _to(receiver: Receiver, file: StateFile, end: float, pace: Pace) -> str:
    """Sends one receiver all that is for it; returns what went wrong."""
    problem = ""
    for pending in [each for each in file.read().outbox if receiver.name in each.to]:
        if problem:  # pauses would leave the others no time
            answer = receiver.send(pending.notification, end - pace.now())
        else:
            answer = attempt(receiver, pending.notification, end, pace)
        if answer.is_taken:
            file.change(partial(_taken, done=pending.notification.id, name=receiver.name))
            continue
        problem = problem or answer.text
        if (answer.try_again and not answer.is_about_one) or pace.now() >= end:  # it would take none of the others
            break
    if not problem:
        return ""
    count = sum(receiver.name in each.to for each in file.read().outbox)
    what = "1 notification is" if count == 1 else f"{count} notifications are"
    return f"{receiver.shown}: {problem}; {what} kept, and sent by the next call or `penstock notify send`"


def _taken(state: NotifyState, done: str, name: str) -> NotifyState:
    """Returns the state without a notification for a receiver."""
    outbox = tuple(
        replace(each, to=tuple(to for to in each.to if to != name)) if each.notification.id == done else each
        for each in state.outbox
    )
    return replace(state, outbox=tuple(each for each in outbox if each.to))
