"""`penstock retrain`: one tick, from the span that is due to a model that is live, or a reason why not.

    span ─► window ─► late? gaps? ─► survey ─► key ─► done before? ─┬─ yes ─► say so
                                                                    └─ no ──► run the pipeline on these spans ─► ledger

The run is that of `penstock run`, with the window's spans in `ingest.spans` and a warm start from the live model.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Any

from components.errors import (
    FlagError,
    GateStopped,
    Late,
    Locked,
    NotBlessed,
    NotFinite,
    PenstockError,
    SettingsError,
    Skipped,
)
from components.ingest.survey import cached, span_unit, spans
from components.redact import redact
from components.serving import live
from components.serving.live import LivePointer
from components.storage import paths
from components.storage.hashing import HashCache
from components.storage.location import Location, location
from pipelines.config import RunConfig
from pipelines.journal import calls
from pipelines.journal.calls import Origin
from pipelines.operate import messages, start, ticks, window
from pipelines.operate.start import Start
from pipelines.operate.ticks import Attempt, Outcome, TickLedger
from pipelines.operate.window import Window
from pipelines.orchestration.metadata import acceptances

if TYPE_CHECKING:  # at run time, imported only by a tick that is not done
    from pipelines.operate.cold_check import ColdCheck
    from pipelines.operate.newest_span import Scores
    from pipelines.orchestration.plan import Request
    from pipelines.report.facts import RunFacts
    from pipelines.run import RunResult

_POLL_SECONDS = 10.0
_OUTCOMES: dict[int, Outcome] = {
    NotBlessed.exit_code: "not better",
    GateStopped.exit_code: "gate stopped",
    Late.exit_code: "late",
    Skipped.exit_code: "skipped",
}
Say = Callable[[str], None]


@dataclass(frozen=True)
class RetrainRequest:
    """Which tick, and how to wait for it."""

    span: str | None = None  # None: the newest that is due
    zone: tzinfo = timezone.utc  # of dates
    at: datetime | None = None  # when the newest span is looked up, on the clock of that zone; None: now
    timeout: float = 0  # seconds to wait for the span
    again: bool = False  # even if the tick is done, or older than the live model
    last: str | None = None  # node to stop after; without a failure there is no verdict yet
    dry_run: bool = False
    wait: bool = False  # for another run on the same root
    take_over: bool = False
    accept: tuple[str, ...] = ()  # findings of the Gate
    because: str = ""
    origin: Origin = field(default_factory=Origin)  # the run that this is a call of

    def __post_init__(self) -> None:
        """Rejects findings that cannot be accepted, before the span is waited for."""
        acceptances.require_valid(self.accept, self.because)


def retrain(config: RunConfig, request: RetrainRequest, say: Say, pause: Callable[[float], None] = time.sleep) -> int:
    """Brings the model up to date with one span, and returns the exit code.

    Args:
        config: the pipeline; its data is a pattern of spans.
        request: the tick.
        say: prints a line.
        pause: waits for some seconds.
    """
    _check(config)
    for place in (config.data, str(config.root), str(config.serving)):
        paths.prepare(place, config.beam_args)
    started, ledger = _now(), ticks.of(config)
    found = _resolve(config, request, request.span)
    tick = _Tick(config, request, ledger, found, started, say)
    try:
        return tick.go(pause)
    except (Locked, FlagError):  # by a run that may be this very tick; rejected flags are no attempt
        raise
    except PenstockError as error:
        if not request.dry_run:
            tick.record(_outcome_of(error.exit_code), redact(str(error)), error.exit_code)
            tick.note(error.exit_code, str(error))
        raise


class _Tick:
    def __init__(
        self, config: RunConfig, request: RetrainRequest, ledger: TickLedger, found: Window, started: str, say: Say
    ) -> None:
        self._config, self._request, self._ledger, self._window = config, request, ledger, found
        self._started, self._say, self._key = started, say, ""
        self._start, self._is_settled, self._has_run = Start("", ""), False, False
        self._check: ColdCheck | None = None
        self._look()

    def go(self, pause: Callable[[float], None]) -> int:
        settings = self._config.settings.ingest
        if self._window.is_late:
            self._require_newest()
        self._window = self._waited_for(pause)
        if self._window.is_late and settings.late == "skip":
            raise Skipped(f"span {self._span} is skipped, because it is not there: {self._place} (ingest.late = skip)")
        window.check(self._window, settings.gaps)
        config = _pinned(self._config, self._window)
        with closing(HashCache(config.hash_cache, read_only=self._request.dry_run)) as cache:
            found = cached.take(config.data, config.settings.ingest, cache, config.needs)
            self._key = ticks.key_of(config, self._window, found, cache)
        done = self._ledger.done(self._span, self._key)
        if done and not self._request.again and self._holds(done):
            if not self._request.dry_run:
                self.note(done.exit_code, self._done_line(done), state="nothing due" if not done.exit_code else None)
            self._say(self._done_line(done))
            return done.exit_code
        self._require_newest()
        self._start = self._chosen(config)
        self._announce()
        return self._run(config)

    def _chosen(self, config: RunConfig) -> Start:
        if self._is_settled:
            return self._start
        return start.choose(config, self._ledger, self._ledger.trained(self._span, self._key))

    def _settled(self, config: RunConfig) -> RunConfig:
        """Decides again under the lock of the root: other calls may have trained and pushed before this one had it."""
        self._look()
        self._require_newest()
        if (chosen := self._chosen(config)) != self._start:
            self._start = chosen
            self._say(chosen.text)
        return _with(config, "train", warm_start=chosen.warm_start)

    def _run(self, config: RunConfig) -> int:
        from pipelines.orchestration.plan import Request
        from pipelines.retention import collect

        nodes = Request(last=self._request.last, accept=self._request.accept, because=self._request.because)
        if self._request.dry_run:
            from pipelines import run  # a third of the time of a tick that is done

            return run.dry_run(_with(config, "train", warm_start=self._start.warm_start), nodes)
        self._has_run = True
        result = self._checked(config, nodes) if self._start.is_checked else None
        if result is None:  # else a training of the check failed
            result = self._pipeline(config, replace(nodes, start=self._start.text if self._is_settled else ""))
        if self._request.last and not result.exit_code:
            self._say(f"span {self._span}: up to {self._request.last}")
            return 0
        before = self._ledger.served(self._versions_before())
        attempt = self.record_result(result)  # first: a process that is killed while it compares has its verdict
        if scores := self._compared(config, result):
            self._ledger.add_scores(attempt, scores)
        if before and (changed := start.changed_classes(before.classes, attempt.classes)):
            self._say(changed)
        collect.after_tick(config, self._say)
        self._say(self._last_line(attempt))
        return result.exit_code

    def _pipeline(self, config: RunConfig, nodes: "Request") -> "RunResult":
        from pipelines import run  # a third of the time of a tick that is done

        return run.run(
            config, nodes, wait=self._request.wait, take_over=self._request.take_over,
            settled=lambda: self._settled(config), origin=self._origin(),
        )  # fmt: skip

    def _checked(self, config: RunConfig, nodes: "Request") -> "RunResult | None":
        """Trains with a warm and with a cold start, and decides which model goes on; returns a run that failed.

        Nothing is kept before the verdict: a call that continues a killed one finds both models, and decides the same.
        """
        from pipelines.operate import cold_check

        if not cold_check.is_reached(config, nodes.last):
            return None
        models: list[Location] = []
        why_not = "the models could not be compared"
        for is_cold in (False, True):
            if is_cold:
                warm, self._is_settled = self._start, True
                if found := self._why_not_compared(config, models[0]):
                    why_not = found
                    break
                self._start = Start(start.NONE, "cold start, to compare with the warm start")
                self._say(self._start.text)
            result = self._pipeline(config, replace(nodes, last="Trainer"))
            if is_cold and result.exit_code == NotFinite.exit_code:  # it would fail each tick that is checked
                why_not = "the training with a cold start diverged"
                break
            if result.exit_code or result.facts is None:
                return result
            if not is_cold and not (self._start.is_checked and result.facts.warm_start):
                return None  # there was no model to start from, or another call has trained this tick
            models.append(location(result.facts.trained))
        try:
            self._check = cold_check.compare(config, self._window.spans[-1], models) if models[1:] else None
        except Exception as reason:  # noqa: BLE001 - the warm start is what would have been trained without the check
            why_not = redact(str(reason)) or type(reason).__name__
        self._start = cold_check.decided(warm, self._check, why_not)
        self._say(self._start.text)
        return None

    def _why_not_compared(self, config: RunConfig, model: Location) -> str:
        """Returns why a second model could not be compared with this one on the newest span; empty if it could."""
        from pipelines.operate import cold_check, newest_span

        least = cold_check.LEAST_RECORDS
        try:
            records = newest_span.records(config, self._window.spans[-1], model)
        except Exception as reason:  # noqa: BLE001 - the warm start is what would have been trained without the check
            return redact(str(reason)) or type(reason).__name__
        return "" if records >= least else f"{records} test records of it on this machine, expected at least {least}"

    def note(self, exit_code: int, reason: str, **more: Any) -> None:
        """Publishes this call in the journal of runs, if it ended before its run began."""
        if self._has_run:
            return
        self._say(f"run {self._request.origin.run}")
        with calls.opened(self._config, self._origin()) as call:
            call.end(exit_code, reason, **{name: value for name, value in more.items() if value is not None})

    def _origin(self) -> Origin:
        """Returns the origin with the span, also in its command: started again later, it is the same tick."""
        origin = replace(self._request.origin, span=self._span)
        if not origin.command or self._request.span or self._request.at:
            return origin
        return replace(origin, command=(origin.command[0], "--span", self._span, *origin.command[1:]))

    def record(self, outcome: Outcome, reason: str, exit_code: int, **more: Any) -> Attempt:
        """Publishes this attempt in the ledger."""
        attempt = Attempt(
            span=self._span, place=self._window.tick, key=self._key, outcome=outcome, reason=reason,
            exit_code=exit_code, started=self._started, ended=_now(), run=self._request.origin.run,
            spans=tuple((span.text, span.version) for span in self._window.spans),
            missing=tuple(self._window.gaps_text.split(", ")) if self._window.gaps else (),
            warm_start=self._start.warm_start, start=self._start.text, check=asdict(self._check) if self._check else {},
            against=str(self._folder_before or ""), **more,
        )  # fmt: skip
        self._ledger.add(attempt)
        return attempt

    def _compared(self, config: RunConfig, result: "RunResult") -> "Scores":
        """Returns the scores of the new model and of the live one, the newest span apart, and says them."""
        from pipelines.operate import newest_span

        # If the Evaluator has not run, this model may be the live one already: a call before was killed after the push.
        facts = result.facts
        if facts is None or result.exit_code not in (0, NotBlessed.exit_code) or "Evaluator" not in _ran(facts):
            return {}
        try:
            model = location(facts.trained)
            scores = newest_span.compare(config, self._window.spans[-1], model, self._folder_before)
        except Exception as reason:  # noqa: BLE001 - it must not change the verdict
            self._say(f"the newest span is not compared apart: {redact(str(reason)) or type(reason).__name__}")
            return {}
        if scores:
            self._say(newest_span.text(scores))
        return scores

    def record_result(self, result: "RunResult") -> Attempt:
        """Publishes the result of the run in the ledger."""
        facts = result.facts
        if facts is None:
            return self.record("failed", "failed before its first node", result.exit_code)
        outcome = _outcome_of(result.exit_code)
        if result.exit_code == 0:
            outcome = "pushed" if "Pusher" in _ran(facts) else "up to date"
            if self._is_withdrawn(facts.model_version):
                outcome = "withdrawn"
        is_first = self._ledger.trained(self._span, self._key) is None  # the Trainer may have run in a killed call
        return self.record(
            outcome, facts.outcome, result.exit_code,
            has_base=bool(facts.warm_start), has_trained=outcome in ticks.DONE and is_first,
            version=facts.model_version or "", classes=facts.classes, metrics=dict(facts.metrics),
        )  # fmt: skip

    @property
    def _span(self) -> str:
        return self._window.tick_text

    @property
    def _place(self) -> str:
        return f"no file {spans.filled(self._window.data, self._window.tick, self._window.unit)}"

    def _waited_for(self, pause: Callable[[float], None]) -> Window:
        """Returns the window once its own span is there, or the time is up."""
        found = self._window
        if not found.is_late or self._config.settings.ingest.late != "wait" or self._request.dry_run:
            return found
        self._say(f"waiting for span {self._span} for {self._request.timeout:,.0f} s: {self._place}")
        end = time.monotonic() + self._request.timeout
        while (left := end - time.monotonic()) > 0:
            pause(min(_POLL_SECONDS, left))
            found = _resolve(self._config, self._request, self._span)
            if not found.is_late:
                break
        self._look()
        return found

    def _is_withdrawn(self, version: str | None) -> bool:
        """Whether the model of a run that ended well is not pushed, or no longer, because a person withdrew it."""
        if not version or (pointer := self._pointer()) is None:
            return not version
        return any(pointer.has_withdrawn(each.model.artifact) for each in pointer.moves if str(each.version) == version)

    def _holds(self, done: Attempt) -> bool:
        """Whether a verdict still holds: its version is served, and what it was made against was not undone."""
        if done.outcome == "withdrawn":
            return done.against == str(self._folder_before or "")
        undone = {move.folder for move in (self._before.rolled_back if self._before else ())}
        if done.outcome == "not better" and done.against in undone:
            return False
        return not done.version or (self._config.serving / done.version).is_dir()

    def _require_newest(self) -> None:
        newest, unit = self._before, self._window.unit
        places = [spans.place_of(name, unit) for name in (newest.live.model.spans if newest else ())]
        last = max((place for place in places if place is not None), default=None)
        if newest and last is not None and last > self._window.tick and not self._request.again:
            raise Skipped(messages.of_older_span(self._span, newest.live.version, span_unit.text(last, unit)))

    def _versions_before(self) -> set[str]:
        """Returns the versions that had the model that was live before the run."""
        if self._before is None:
            return set()
        model = self._before.live.model.artifact
        return {str(move.version) for move in self._before.moves if move.model.artifact == model}

    def _announce(self) -> None:
        for line in messages.of_window(self._window, self._config.settings.ingest.gaps):
            self._say(line)
        self._say(self._start.text)

    def _done_line(self, done: Attempt) -> str:
        return messages.of_done(done, self._live_folder())

    def _last_line(self, attempt: Attempt) -> str:
        return messages.of_result(attempt, self._live_folder())

    def _live_folder(self) -> Location | None:
        return live.folder_of(self._config.root, self._config.serving, self._config.name)

    def _look(self) -> None:
        """Notes what is live before the run."""
        self._before = self._pointer()
        self._folder_before = location(self._before.live.folder) if self._before else self._live_folder()

    def _pointer(self) -> LivePointer | None:
        return live.current(self._config.root, self._config.serving, self._config.name)


def _check(config: RunConfig) -> None:
    """Rejects a selection of spans that contradicts the window."""
    if "spans" in config.settings.ingest.model_fields_set:
        raise SettingsError(
            f"ingest.spans = {config.settings.ingest.spans}: `penstock retrain` chooses the spans itself, by "
            "ingest.window; leave ingest.spans out"
        )


def _resolve(config: RunConfig, request: RetrainRequest, span: str | None) -> Window:
    rule, now = config.settings.ingest.window, request.at or datetime.now(request.zone)
    return window.resolve(config.data, rule, span, paths.matches, now)


def _pinned(config: RunConfig, found: Window) -> RunConfig:
    """Returns the configuration of a run on exactly the spans of a window."""
    return _with(config, "ingest", spans=found.selection)


def _with(config: RunConfig, section: str, **values: Any) -> RunConfig:
    """Returns a configuration with other settings in one section."""
    changed = getattr(config.settings, section).model_copy(update=values)
    return replace(config, settings=config.settings.model_copy(update={section: changed}))


def _ran(facts: "RunFacts | None") -> set[str]:
    """Returns the nodes that ran, and were not up to date."""
    return {node.id for node in facts.nodes if node.state == "ran"} if facts else set()


def _outcome_of(code: int) -> Outcome:
    return _OUTCOMES.get(code, "failed")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
