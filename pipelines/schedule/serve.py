"""The scheduler: one process that wakes up and starts what is due.

    step:  look  what others want to know before anything is decided, such as that ticks are late
           end   ticks whose process has ended: state, reason and exit code to the ledger
           find  ticks that a dead scheduler left: watched if their process runs, else queued again
           decide what is due (policy), in one transaction per schedule
           start `penstock retrain`, one process per tick

The truth is in the ledger; a scheduler that is killed at any moment loses nothing that the next one cannot find.
"""

import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGTERM

from components.errors import Locked, PenstockError
from pipelines.schedule import processes
from pipelines.schedule.clock import SchedulerClock
from pipelines.schedule.ledger import ScheduleLedger
from pipelines.schedule.outcome import TickResult, result_of
from pipelines.schedule.policy import TickDecision, TickRecord, TickState, decide
from pipelines.schedule.processes import Child, RetrainCommand, Start
from pipelines.schedule.schedule import PipelineSchedule

POLL_SECONDS = 10.0  # how soon a change of a schedule, or another scheduler's tick, is noticed
MOST_STARTS = 3  # of a tick whose process is killed
_PATIENCE = 30.0  # seconds for a run that is stopped: it writes a checkpoint first
_STOPPED = "stopped with the scheduler; it goes on with the next one"
Find = Callable[[], Sequence[Path]]
Say = Callable[[str], None]
Notify = Callable[[ScheduleLedger, TickRecord], None]
Look = Callable[[ScheduleLedger], None]
_ENDED_BY_US = (-SIGTERM, 128 + SIGTERM)
_Id = tuple[Path, str, str]


class Scheduler:
    """Starts the ticks of all schedules that it finds."""

    def __init__(
        self,
        find: Find,
        clock: SchedulerClock,
        say: Say,
        *,
        start: Start = processes.start,
        at_once: int = 1,
        notify: Notify | None = None,
        look: Look | None = None,
    ) -> None:
        """Makes a scheduler.

        Args:
            find: returns the folders that have a ledger of schedules.
            clock: the time.
            say: prints a line.
            start: starts a command.
            at_once: how many runs may go on at the same time, each on its own root.
            notify: is given every tick that has reached its last state.
            look: is given every ledger at the beginning of each step.
        """
        self._find, self._clock, self._say, self._start = find, clock, say, start
        self._at_once, self._notify, self._look = at_once, notify, look
        self._me = processes.own_identity()
        self._children: dict[_Id, Child] = {}
        self._errors: dict[Path, str] = {}  # of this step
        self._errors_before: dict[Path, str] = {}  # of the step before
        self._begun: dict[Path, int] = {}  # the number of the newest run of each root, of those of this scheduler
        self._watched: set[_Id] = set()  # runs that go on and are this scheduler's, others' children included

    def run(self) -> int:
        """Steps until a signal stops it; returns the signal's number."""
        while not self._clock.stopped_by:
            wake = self.step()
            left = (wake - self._clock.now()).total_seconds() if wake else POLL_SECONDS
            if not self._clock.stopped_by:
                self._clock.sleep(min(max(left, 0.0), POLL_SECONDS))
        self.stop()
        return self._clock.stopped_by

    def step(self) -> datetime | None:
        """Does what there is to do now; returns when the next tick is due, if any is."""
        self._errors_before, self._errors = self._errors, {}
        ledgers = [ScheduleLedger(folder) for folder in self._find()]
        for ledger in ledgers:
            if self._look:
                self._guarded(ledger, self._look)
            self._guarded(ledger, self._end_and_find)
        files = {ledger.file for ledger in ledgers}
        self._forget({identity for identity in self._watched if identity[0] not in files})
        # In turn: else a root whose runs take longer than its interval would leave no room for the next one.
        ledgers.sort(key=lambda ledger: self._begun.get(ledger.file, 0))
        coming = [self._guarded(ledger, self._start_due) for ledger in ledgers]
        return min((time for time in coming if time), default=None)

    def stop(self) -> None:
        """Stops the runs of this scheduler; their ticks are queued."""
        mine: list[tuple[ScheduleLedger, TickRecord]] = []
        for ledger in map(ScheduleLedger, self._find()):
            self._guarded(ledger, lambda each: mine.extend((each, record) for record in self._mine(each)))
        running = {processes.identity(child.pid) for child in self._children.values()}
        for process in running | {record.process for _, record in mine}:
            processes.send(process, SIGTERM)
        for ledger, record in mine:
            self._guarded(ledger, partial(self._stop_one, record=record))

    def run_by_hand(self, ledger: ScheduleLedger, name: str) -> TickRecord:
        """Runs a tick of this moment to its end, and returns it; raises Locked if a tick of the root is running."""
        self._end_and_find(ledger)  # else a tick that was killed with its scheduler would be in the way for ever
        schedule, now = ledger.find(name), self._clock.now()

        def policy(schedule: PipelineSchedule, ticks: Sequence[TickRecord], is_alone: bool) -> Sequence[TickDecision]:
            running = next((each.tick.key for each in ticks if each.state == "running"), None)
            if running or not is_alone:
                what = f"tick {running}" if running else "another schedule of this root"
                raise Locked(f"{name}: the run of {what} is going on; wait for its end, and try again")
            return [TickDecision(schedule.timetable.by_hand(now), "running", "run-now")]

        (record,) = ledger.decide(name, now, self._me, policy)
        self._begin(ledger, schedule, record)
        identity = _id(ledger, record)
        while identity in self._children:
            self._clock.sleep(POLL_SECONDS)  # the end of the process and a signal end it
            if self._clock.stopped_by:
                self.stop()
            self._guarded(ledger, self._end_and_find)
        ended = next((each for each in ledger.ticks(name) if each.tick.key == record.tick.key), None)
        if ended is None:
            raise PenstockError(
                f"{name}: its schedule was removed while the tick ran; expected it to stay until the end: see "
                "`penstock runs show last` for how the run ended"
            )
        return ended

    def _guarded(self, ledger: ScheduleLedger, work: Callable[[ScheduleLedger], datetime | None]) -> datetime | None:
        """Goes on with the other roots if one of them cannot be read or written; what is due there stays due."""
        try:
            coming = work(ledger)
        except (PenstockError, OSError) as error:
            said = (self._errors_before.get(ledger.file), self._errors.get(ledger.file))
            if str(error) not in said:  # said once, not every ten seconds
                self._log("", str(error))
            self._errors[ledger.file] = str(error)
            return None
        return coming

    def _end_and_find(self, ledger: ScheduleLedger) -> None:
        known = {identity for identity in self._watched if identity[0] == ledger.file}
        for record in self._running(ledger):
            if record.owner == self._me:
                known.discard(_id(ledger, record))
                self._look_after(ledger, record)
            elif not processes.is_alive(record.owner):
                self._take_over(ledger, record)
        self._forget(known)

    def _forget(self, gone: set[_Id]) -> None:
        """Stops watching runs whose tick was removed with its schedule; a run that goes on is watched to its end."""
        for identity in gone:
            child = self._children.get(identity)
            if child is None or child.poll() is not None:
                self._watched.discard(identity)
                self._children.pop(identity, None)

    def _mine(self, ledger: ScheduleLedger) -> list[TickRecord]:
        return [record for record in self._running(ledger) if record.owner == self._me]

    def _running(self, ledger: ScheduleLedger) -> list[TickRecord]:
        return [record for record in ledger.open_ticks() if record.state == "running"]

    def _look_after(self, ledger: ScheduleLedger, record: TickRecord) -> None:
        if child := self._children.get(_id(ledger, record)):
            if (code := child.poll()) is not None:
                self._end(ledger, record, code)
        elif not processes.is_alive(record.process):
            self._end(ledger, record, None)

    def _take_over(self, ledger: ScheduleLedger, record: TickRecord) -> None:
        """Makes a tick of a dead scheduler this one's."""
        mine = ledger.change(record, owner=self._me)
        if mine is None:  # another scheduler was faster
            return
        self._watched.add(_id(ledger, record))
        if processes.is_alive(record.process):
            self._log(record.schedule, f"tick {record.tick.key}: its run goes on without the scheduler that started it")
        else:
            self._end(ledger, mine, None)

    def _end(self, ledger: ScheduleLedger, record: TickRecord, code: int | None, *, stopping: bool = False) -> None:
        result, starts = result_of(code, processes.last_lines(output_of(ledger, record))), record.starts
        if stopping and (code is None or code in _ENDED_BY_US):
            result, starts = TickResult(None, _STOPPED, None), 0
        self._settle(ledger, record, result, starts)

    def _settle(self, ledger: ScheduleLedger, record: TickRecord, result: TickResult, starts: int) -> None:
        """Notes how a start of a tick ended; without a result the tick is queued, unless it was started too often."""
        state, reason, now = result.state, result.reason, self._clock.now()
        if state is None and starts >= MOST_STARTS:
            state, reason = "failed", f"{reason}, {starts} times"
        if state is None:
            ended = ledger.change(
                record, state="queued", reason=reason, decided=now, owner="", process="", starts=starts
            )
        else:
            ended = ledger.change(
                record, state=state, reason=reason, decided=now, ended=now, exit_code=result.exit_code
            )
        self._children.pop(_id(ledger, record), None)
        self._watched.discard(_id(ledger, record))
        if ended is not None:
            self._tell(ledger, ended)

    def _start_due(self, ledger: ScheduleLedger) -> datetime | None:
        coming = []
        for schedule in ledger.schedules():
            now = self._clock.now()
            for record in ledger.decide(schedule.name, now, self._me, self._policy(now)):
                if record.state == "running":
                    self._begin(ledger, schedule, record)
                else:
                    self._tell(ledger, record)
            if not schedule.paused:
                coming += schedule.timetable.first(1, now)
        return min((tick.at for tick in coming), default=None)

    def _policy(
        self, now: datetime
    ) -> Callable[[PipelineSchedule, Sequence[TickRecord], bool], Sequence[TickDecision]]:
        has_room = len(self._watched) < self._at_once
        return lambda schedule, ticks, is_alone: decide(schedule, ticks, now, is_free=is_alone and has_room)

    def _begin(self, ledger: ScheduleLedger, schedule: PipelineSchedule, record: TickRecord) -> None:
        identity = _id(ledger, record)
        command = RetrainCommand(arguments_of(schedule, record), Path(schedule.folder), output_of(ledger, record))
        self._watched.add(identity)
        try:
            child = self._start(command)
        except OSError as error:
            reason = ": ".join(str(each) for each in (error.filename, error.strerror) if each)
            state: TickState | None = "failed" if record.tick.is_by_hand else None  # nobody waits for a later start
            self._settle(ledger, record, TickResult(state, reason, None), record.starts)
            return
        self._children[identity] = child
        self._begun[ledger.file] = max(self._begun.values(), default=0) + 1
        ledger.change(record, process=processes.identity(child.pid))
        self._log(record.schedule, f"tick {record.tick.key}: started, process {child.pid}, output in {command.output}")

    def _stop_one(self, ledger: ScheduleLedger, record: TickRecord) -> None:
        code = None
        if child := self._children.get(_id(ledger, record)):
            try:
                code = child.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                processes.send(processes.identity(child.pid), SIGKILL)
        self._end(ledger, record, code, stopping=True)

    def _tell(self, ledger: ScheduleLedger, record: TickRecord) -> None:
        self._log(record.schedule, f"tick {record.tick.key}: {record.state}{': ' * bool(record.reason)}{record.reason}")
        if self._notify and record.state not in ("queued", "running"):
            self._notify(ledger, record)

    def _log(self, name: str, what: str) -> None:
        self._say(f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ} {name}{' ' * bool(name)}{what}")


def arguments_of(schedule: PipelineSchedule, record: TickRecord) -> tuple[str, ...]:
    """Returns the arguments of `penstock` for a tick; the time of the tick decides which span is due."""
    at = record.tick.local.isoformat(timespec="seconds")
    flags = ("--timezone", schedule.zone, "--at", at, "--run-id", record.run_id, "--wait")
    return ("retrain", *flags, schedule.task, *schedule.arguments)


def output_of(ledger: ScheduleLedger, record: TickRecord) -> Path:
    """Returns the file of what the process of a tick prints."""
    name = f"{record.schedule}-{record.tick.key.replace(':', '')}.txt"
    return ledger.file.parent.parent / "logs" / "schedule" / name


def _id(ledger: ScheduleLedger, record: TickRecord) -> _Id:
    return (ledger.file, record.schedule, record.tick.key)
