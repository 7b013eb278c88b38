"""Which notifications something that happened leads to: a pure function of what was notified before.

| happened          | notified                                                                                       |
|-------------------|------------------------------------------------------------------------------------------------|
| a failure, late   | once, until all is well again or the reason changes                                            |
| no better model   | the same; a failure before it is over                                                          |
| all is well       | recovered, if something failed or was late before and no tick is late; pushed, if a model was  |
| of an older run   | the same, but never recovered: `penstock status` shows a newer run                             |
| unfinished        | nothing: a call of a run that was asked for some of its nodes only, and did them               |
| late tick         | late, once; it is over when a run ends well and no tick is late any more                       |

Each event of a run is notified once, however many calls the run has.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from components.settings.notify import NotifyEvent
from pipelines.notify.notification import Notification, id_of
from pipelines.notify.state import NotifyState, Pending, Seen

Kind = Literal["failed", "late", "not better", "well", "unfinished", "late tick"]
OLDEST = timedelta(days=2)  # what ended before is not notified any more
MOST_PENDING = 100
LONGEST_PENDING = timedelta(days=7)
_TROUBLE: tuple[Kind, ...] = ("failed", "late")
_REMEMBERED = 200  # runs and ticks


@dataclass(frozen=True)
class Occurrence:
    """Something that happened to a pipeline."""

    kind: Kind
    key: str  # the run, or the tick
    about: Notification  # without event and id
    call: int = 0  # of the run
    has_pushed: bool = False
    is_newest: bool = True  # no run that began later had ended by then


def applied(
    state: NotifyState,
    occurrence: Occurrence,
    on: Collection[NotifyEvent],
    to: Sequence[str],
    *,
    has_late_tick: bool = False,
) -> NotifyState:
    """Returns the state after something happened, with the notifications that it leads to in the outbox.

    Args:
        state: what was notified before.
        occurrence: what happened.
        on: the events to notify.
        to: names of the receivers.
        has_late_tick: whether a tick is due now that no scheduler has handled.
    """
    key, seen = occurrence.key, state.seen.get(occurrence.key, Seen())
    before = state.last[1] if state.last else f"tick {state.late_tick} was late" if state.late_tick else ""
    events, state = _decided(state, occurrence, has_late_tick=has_late_tick)
    new = tuple(event for event in events if event not in seen.events)
    made = tuple(_notification(occurrence, event, before) for event in new if event in on)
    rest = {name: each for name, each in state.seen.items() if name != key}
    known = {**rest, key: Seen(occurrence.call, (*seen.events, *new))}
    return replace(
        state,
        seen=dict(list(known.items())[-_REMEMBERED:]),
        outbox=(*state.outbox, *(Pending(each, tuple(to)) for each in made)) if to else state.outbox,
    )


def trimmed(state: NotifyState, now: datetime) -> NotifyState:
    """Returns the state without notifications that are too old, or too many: the newest stay."""
    start = (now - LONGEST_PENDING).isoformat()
    kept = tuple(each for each in state.outbox if each.to and each.notification.time >= start)
    return replace(state, outbox=kept[-MOST_PENDING:])


def _decided(
    state: NotifyState, occurrence: Occurrence, *, has_late_tick: bool
) -> tuple[list[NotifyEvent], NotifyState]:
    kind, reason = occurrence.kind, occurrence.about.reason
    if kind == "unfinished":
        return [], state
    if kind == "late tick":
        return (["late"], replace(state, late_tick=occurrence.about.tick)) if not state.late_tick else ([], state)
    if kind == "failed" or kind == "late":  # noqa: PLR1714 - so that mypy knows the type
        return ([kind] if state.last != (kind, reason) else []), replace(state, last=(kind, reason))
    of_run: list[NotifyEvent] = ["pushed"] if occurrence.has_pushed else []
    if kind == "not better":
        of_run = ["not better"] if state.last != (kind, reason) else []
    if not occurrence.is_newest:
        return of_run, state
    was_bad = bool(state.late_tick) or (state.last is not None and state.last[0] in _TROUBLE)
    recovered: list[NotifyEvent] = ["recovered"] if was_bad and not has_late_tick else []
    late_tick = state.late_tick if has_late_tick else ""
    return [*recovered, *of_run], replace(
        state, last=(kind, reason) if kind == "not better" else None, late_tick=late_tick
    )


def _notification(occurrence: Occurrence, event: NotifyEvent, before: str) -> Notification:
    about = occurrence.about
    made = replace(about, event=event, id=id_of(about.root, about.pipeline, occurrence.key, event))
    return replace(made, recovered_from=before) if event == "recovered" else made
