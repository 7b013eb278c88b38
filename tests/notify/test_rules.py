"""What is notified, and what is not, as a pure function of what was notified before."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from components.settings.notify import EVENTS
from pipelines.notify import rules
from pipelines.notify.notification import Notification
from pipelines.notify.rules import Occurrence
from pipelines.notify.state import NotifyState

SINCE = "2026-03-01T00:00:00.000+00:00"
Happened = tuple[Any, ...]  # kind, run, reason


def occurrence(kind: Any, run: str, reason: str = "", **more: Any) -> Occurrence:
    """Returns something that happened to a run."""
    about = Notification("ants", "image", "2026-03-09T02:00:00", "here", "/r", kind, reason, run=run)
    return Occurrence(kind, run, replace(about, tick=run) if kind == "late tick" else about, **more)


def notified(happened: Sequence[Happened], on: Sequence[Any] = EVENTS, **more: Any) -> list[str]:
    """Returns the events that some occurrences lead to, each with its run."""
    state = NotifyState(SINCE)
    for each in happened:
        state = rules.applied(state, occurrence(*each), on, ["webhook"], **more)
    return [f"{each.notification.event} {each.notification.run}" for each in state.outbox]


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        ([("failed", "A", "x"), ("failed", "B", "x")], ["failed A"]),
        ([("failed", "A", "x"), ("failed", "B", "y")], ["failed A", "failed B"]),
        ([("failed", "A", "x"), ("well", "B"), ("well", "C")], ["failed A", "recovered B"]),
        ([("failed", "A", "x"), ("well", "B"), ("failed", "C", "x")], ["failed A", "recovered B", "failed C"]),
        ([("late", "A", "x"), ("failed", "B", "x"), ("well", "C")], ["late A", "failed B", "recovered C"]),
        ([("failed", "A", "x"), ("unfinished", "A"), ("well", "A")], ["failed A", "recovered A"]),
        ([("failed", "A", "x"), ("failed", "A", "y"), ("failed", "A", "z")], ["failed A"]),
        ([("not better", "A", "x"), ("not better", "B", "x"), ("well", "C")], ["not better A"]),
        ([("failed", "A", "x"), ("not better", "B", "y")], ["failed A", "recovered B", "not better B"]),
        ([("late tick", "K", ""), ("late tick", "L", ""), ("well", "C")], ["late K", "recovered C"]),
        ([("well", "A"), ("well", "B")], []),
    ],
)
def test_each_thing_is_told_once(happened: list[Happened], expected: list[str]) -> None:
    """A failure once until it is over or its reason changes, its end once, and a run once per event."""
    assert notified(happened) == expected


def test_only_chosen_events_are_told() -> None:
    """What happens in between still counts."""
    assert notified([("failed", "A", "x"), ("well", "B"), ("well", "C")], ["recovered"]) == ["recovered B"]


def test_a_late_tick_is_not_over_while_there_is_one() -> None:
    """A run that a person starts does not mean that the scheduler is back; another failure is notified as usual.

    `recovered` waits until no tick is late, as `penstock status` does.
    """
    happened = [("late tick", "K", ""), ("well", "B"), ("failed", "C", "x"), ("well", "D")]

    assert notified(happened, has_late_tick=True) == ["late K", "failed C"]


def test_an_older_run_does_not_end_the_trouble_of_a_newer_one() -> None:
    """Its model is notified; the newer run has to end well itself."""
    state = NotifyState(SINCE)
    older = occurrence("well", "A", has_pushed=True, is_newest=False)
    for each in (occurrence("failed", "B", "x"), older, occurrence("well", "B")):
        state = rules.applied(state, each, EVENTS, ["webhook"])

    assert [f"{each.notification.event} {each.notification.run}" for each in state.outbox] == [
        "failed B", "pushed A", "recovered B",
    ]  # fmt: skip


def test_a_pushed_model_is_told_with_what_is_over() -> None:
    """The recovery names the trouble; the same run has the same ids whichever process notifies of it."""
    state = NotifyState(SINCE)
    for each in (occurrence("failed", "A", "disk full"), occurrence("well", "B", "pushed", has_pushed=True)):
        state = rules.applied(state, each, EVENTS, ["webhook"])
    again = rules.applied(NotifyState(SINCE), occurrence("failed", "A", "disk full"), EVENTS, ["webhook"])
    failed, recovered, pushed = (each.notification for each in state.outbox)

    assert (recovered.event, recovered.recovered_from, pushed.event) == ("recovered", "disk full", "pushed")
    assert failed.id == again.outbox[0].notification.id
    assert len({failed.id, recovered.id, pushed.id}) == 3


KINDS = st.sampled_from(["failed", "late", "not better", "well", "unfinished"])


@hypothesis.given(st.lists(st.tuples(KINDS, st.sampled_from("ABC"), st.sampled_from("xy"))))
def test_no_sequence_of_runs_tells_twice(happened: list[Happened]) -> None:
    """No event of a run comes twice, and there is at most one recovery per failure or late run that ended."""
    found = notified(happened)
    decisive = [each[0] in ("failed", "late") for each in happened if each[0] != "unfinished"]
    ends = sum(before and not after for before, after in pairwise(decisive))

    assert len(found) == len(set(found))
    assert sum(each.startswith("recovered") for each in found) <= ends


def test_old_and_too_many_notifications_are_dropped(at: Callable[..., Any]) -> None:
    """The newest hundred of the last seven days stay."""
    state = NotifyState(SINCE)
    for number in range(150):
        state = rules.applied(state, occurrence("failed", f"R{number}", f"reason {number}"), EVENTS, ["webhook"])
    now = at("2026-03-09T02:00:01")

    assert [each.notification.run for each in rules.trimmed(state, now).outbox] == [f"R{at}" for at in range(50, 150)]
    assert rules.trimmed(state, now + timedelta(days=8)).outbox == ()
