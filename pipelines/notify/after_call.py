"""Notifies at the end of a call: of its run, and of runs before it that could not do so themselves.

What happened is read from the journal of runs, so the next call notifies of a run that was killed. That a receiver
is slow, down or wrong is a warning: it never changes how a run ends.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import reduce
from itertools import islice
from pathlib import Path

from components import progress
from components.errors import Locked, SettingsError, exit_code_of
from components.redact import redact
from components.serving import live
from components.training import interrupt
from pipelines.config import RunConfig
from pipelines.journal import calls
from pipelines.journal.calls import Call, CallState
from pipelines.notify import receivers, rules
from pipelines.notify.deliver import Pace, deliver
from pipelines.notify.notification import MOST_TEXT, Notification
from pipelines.notify.receivers import Receiver
from pipelines.notify.rules import Kind, Occurrence
from pipelines.notify.state import NotifyState, Seen, StateFile
from pipelines.schedule import view
from pipelines.schedule.timetable import DueTick

_NEWEST_RUNS = 20
_KINDS: dict[CallState, Kind] = {
    "succeeded": "well",
    "nothing due": "well",
    "not blessed": "not better",
    "gate stopped": "failed",
    "failed": "failed",
    "late": "late",
}
_SKIPPED = ("skip", "skipped")  # what the journal says of a node that was not asked for
Now = Callable[[], datetime]
Sent = Sequence[Receiver]


def utc_now() -> datetime:
    """Returns the time, UTC."""
    return datetime.now(timezone.utc)


@contextmanager
def sent(config: RunConfig, pace: Pace | None = None, run: str = "") -> Iterator[None]:
    """Notifies at the end of the block, however it ends; a call that was cancelled sends nothing.

    Args:
        config: the pipeline.
        pace: how time passes.
        run: id of the run, to notify of an error before the call is in the journal; empty: that is not notified.
    """
    found = receivers.of(config)
    if not found:
        yield
        return
    file = file_of(config)
    with guarded():
        file.change(lambda state: state)  # from now on, the next call notifies of a run that is killed
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _notify(config, file, found, pace, _of_error(config, error, run))
        raise
    else:
        _notify(config, file, found, pace)


@contextmanager
def guarded(warn: Callable[[str], None] = progress.warn) -> Iterator[None]:
    """Makes any error within the block a warning."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - notifications decide nothing
        warn(f"notifications: {redact(str(error)) or type(error).__name__}")


def file_of(config: RunConfig, now: Now = utc_now) -> StateFile:
    """Returns the file with what was notified of a pipeline."""
    return StateFile(config.notes, config.name, now)


def note(
    config: RunConfig, file: StateFile, found: Sent, now: datetime, more: Sequence[Occurrence] = ()
) -> NotifyState:
    """Puts into the outbox what happened since the last time.

    Args:
        config: the pipeline.
        file: what was notified before.
        found: the receivers.
        now: the time, UTC.
        more: what else happened, to runs that are not in the journal.
    """
    late, settings = late_tick(config.notes, config.name, now), config.settings.notify
    names = [receiver.name for receiver in found]

    def noted(state: NotifyState) -> NotifyState:
        happened = [*_of_schedule(config, late, state, now), *_of_runs(config, state, now)]
        written = {each.key for each in happened} | {*state.seen}
        happened += [each for each in more if each.key not in written]
        after = reduce(
            lambda before, each: rules.applied(before, each, settings.on, names, has_late_tick=late is not None),
            happened,
            state,
        )
        return rules.trimmed(after, now)

    return file.change(noted)


def late_tick(notes: Path, pipeline: str, now: datetime) -> DueTick | None:
    """Returns the first tick that is due and that no scheduler has handled, if one has handled ticks before.

    A schedule that was exported to another scheduler has no ticks here.
    """
    for each in view.read(notes, now, coming=0):
        if each.schedule.name == pipeline and each.undecided:
            return each.undecided[0] if any(not record.tick.is_by_hand for record in each.last) else None
    return None


def about(config: RunConfig, now: datetime, state: str, reason: str, **more: object) -> Notification:
    """Returns a notification without event, with what is known of a pipeline."""
    line = redact((reason.strip().splitlines() or [""])[0])
    said = receivers.hidden(config, "".join(each if each.isprintable() else " " for each in line))
    fields = {
        "pipeline": config.name, "task": config.task.name, "time": now.isoformat(timespec="milliseconds"),
        "host": socket.gethostname(), "root": redact(str(config.root)), "state": state, "reason": said[:MOST_TEXT],
        "live_version": _live_version(config), **more,
    }  # fmt: skip
    return Notification(**fields)  # type: ignore[arg-type]


def _of_error(config: RunConfig, error: BaseException, run: str) -> list[Occurrence]:
    """Returns what a call led to that ended before it was in the journal, such as by a store that is away."""
    code = exit_code_of(error)
    kind = _KINDS.get(calls.state_of(code))
    if not run or kind is None or isinstance(error, Locked | SettingsError):
        return []
    reason = calls.reason_of(code, str(error) or type(error).__name__)
    known = about(config, utc_now(), calls.state_of(code), reason, run=run, exit_code=code)
    return [Occurrence(kind, run, known)]


def _notify(
    config: RunConfig, file: StateFile, found: Sent, pace: Pace | None, more: Sequence[Occurrence] = ()
) -> None:
    # A signal while a receiver is slow: what was started for it is killed, too.
    with interrupt.raised(), guarded():
        now = utc_now()
        note(config, file, found, now, more)
        if _newest_state(config) == "cancelled":  # by a person who waits for its end
            return
        for problem in deliver(file, found, config.settings.notify.timeout, pace or Pace()):
            progress.warn(problem)


def _newest_state(config: RunConfig) -> str:
    newest = next(calls.newest_first(calls.folder_of(config.notes, config.name)), None)
    return newest[-1].state if newest else ""


def _of_schedule(config: RunConfig, late: DueTick | None, state: NotifyState, now: datetime) -> Iterator[Occurrence]:
    if late is None or f"tick {late.key}" in state.seen:
        return
    reason = f"tick {late.key} is due, and no scheduler has handled it (penstock schedule serve)"
    yield Occurrence("late tick", f"tick {late.key}", about(config, now, "late", reason, tick=late.key))


def _of_runs(config: RunConfig, state: NotifyState, now: datetime) -> list[Occurrence]:
    """Returns what became of the newest runs that were not notified yet, oldest first."""
    folder, start = calls.folder_of(config.notes, config.name), (now - rules.OLDEST).isoformat()
    found = []
    newest = list(islice(calls.newest_first(folder), _NEWEST_RUNS))
    for made in reversed(newest):  # two may have the same time
        last, time = made[-1], _time(made)
        is_known = last.number <= state.seen.get(last.run, Seen()).calls or last.started < state.since or time < start
        if not is_known and (last.ended or not calls.is_held(folder / f"{last.run}.json")):
            found.append((time, last, not any(_is_shown_instead(each, made, folder) for each in newest)))
    ordered = (_of_call(config, call, now, is_newest=last) for _, call, last in sorted(found, key=lambda each: each[0]))
    return [each for each in ordered if each is not None]


def _time(made: Sequence[Call]) -> str:
    """Returns when a run ended; of one that was killed, when its last call began."""
    return made[-1].ended or made[-1].started


def _is_shown_instead(other: Sequence[Call], made: Sequence[Call], folder: Path) -> bool:
    """Whether `penstock status` went by another run when this one ended: it began later, and had a result by then."""
    last = other[-1]
    has_result = last.state in _KINDS if last.ended else not calls.is_held(folder / f"{last.run}.json")
    return has_result and other[0].started > made[0].started and _time(other) <= _time(made)


def _of_call(config: RunConfig, call: Call, now: datetime, *, is_newest: bool = True) -> Occurrence | None:
    """Returns what a call led to; None if it leads to no notification: it was cancelled, or left out."""
    state, reason = (call.state, call.reason) if call.ended else ("killed", calls.KILLED)
    kind = _KINDS.get(call.state) if call.ended else "failed"
    if kind is None:
        return None
    if kind == "well" and any(node["state"] in _SKIPPED for node in call.nodes):
        kind = "unfinished"
    log, report = config.logs / f"{call.run}.log", config.report_of(call.run)
    found = about(
        config, datetime.fromisoformat(call.ended) if call.ended else now, state, reason,
        run=call.run, span=call.span, exit_code=call.exit_code, host=call.host, log=_existing(log),
        version=call.version, report=_existing(report),
        **({} if isinstance(config.root, Path) else {"live_version": call.live}),
    )  # fmt: skip
    has_pushed = bool(call.version) and any(node["id"] == "Pusher" and node["state"] == "ran" for node in call.nodes)
    return Occurrence(kind, call.run, found, call.number, has_pushed, is_newest)


def _existing(path: Path) -> str:
    return str(path) if path.is_file() else ""


def _live_version(config: RunConfig) -> int | None:
    """Returns the live version; of a root on an object store, which takes requests, the last call knows it."""
    if not isinstance(config.root, Path) or not isinstance(config.serving, Path):
        return None
    pointer = live.current(config.root, config.serving, config.name)
    return pointer.live.version if pointer else None
