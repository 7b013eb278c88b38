"""One run from lock to summary, the same for `penstock run` and for the `tfx` CLI.

lock ─► clean up after a killed run ─► plan ─► nothing due: print why
                                            └► import TFX, build, run the due nodes ─► facts ─► summary, report
"""

import gc
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from components import progress
from components.errors import exit_code_of
from components.ingest.survey import cached
from components.progress import Progress
from components.storage.hashing import HashCache
from components.storage.location import unreachable
from components.training import interrupt
from pipelines import log
from pipelines.config import RunConfig
from pipelines.console import Display
from pipelines.engine import jobs
from pipelines.journal import calls
from pipelines.journal.calls import OpenCall, Origin
from pipelines.journal.events import EventLog
from pipelines.orchestration import plan, schema, workers
from pipelines.orchestration.metadata import acceptances, live_model
from pipelines.orchestration.metadata.store import Store
from pipelines.orchestration.outcome import NodeFacts, largest_drift
from pipelines.orchestration.plan import NodePlan, Plan, Request
from pipelines.orchestration.remote import remote_root
from pipelines.orchestration.remote.lease import Lease
from pipelines.orchestration.root import disk, leftovers, lock, up_to_date
from pipelines.orchestration.runners import dataflow, engines
from pipelines.report import gather, model_card
from pipelines.report.facts import RunFacts

if TYPE_CHECKING:
    from pipelines.orchestration.retries import FailedTry


def dry_run(config: RunConfig, request: Request, out: TextIO = sys.stdout) -> int:
    """Prints for each node whether it would run, and why. Writes nothing."""
    remote_root.prepare(config)
    remote_root.check_state(config)
    cache = HashCache(config.hash_cache, read_only=True)
    planned = plan.make(config, Store(config.metadata, config.name), cache, request)
    Display(out).plan(planned, config)
    return 0


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    exit_code: int
    facts: RunFacts | None = None  # None if it failed before its first node


def run(
    config: RunConfig,
    request: Request,
    *,
    wait: bool = False,
    take_over: bool = False,
    compiled: Any = None,
    settled: Callable[[], RunConfig] | None = None,
    origin: Origin | None = None,
) -> RunResult:
    """Brings the pipeline up to date; errors of its nodes are shown and decide the exit code.

    Args:
        config: which pipeline, on which data, in which root.
        request: which of its nodes.
        wait: whether to wait for another run on the same root.
        take_over: whether to take the lock of a root on an object store from a run that has ended elsewhere.
        compiled: the pipeline's IR if the `tfx` CLI has compiled it; up-to-date nodes are then recorded as well.
        settled: returns the configuration in force, from what is known once no other run works on the root.
        origin: the run that this is a call of, and its command; None: a new run.
    """
    remote_root.prepare(config)
    dataflow.check_run(config)
    workers.require_chief(config)
    explained = partial(disk.explained, lambda: disk.places_of_run(config), lambda: _needed(config))
    with (
        explained(),
        lock.hold(config.notes, wait=wait, flag="--root" if config.store is None else "--state"),
        calls.opened(config, origin or Origin()) as call,
        explained(),  # before the call ends, which keeps the reason
        remote_root.held(config, wait=wait, take_over=take_over) as lease,
        workers.released(config) as codes,
        leftovers.temporary_files(config.state),
    ):
        store = Store(config.metadata, config.name, read_only=False)
        if config.server is not None:
            store.claim(lock.identity_of(config))
        display = Display(sys.stdout)
        display.run(call.run, call.number)
        display.closed(store.close_killed_executions())
        jobs.end_left(config.notes, progress.say)
        leftovers.collect(config, store)
        live_model.repair(config, store)
        if settled is not None:
            config = settled()
        with closing(HashCache(config.hash_cache)) as cache:
            planned = plan.make(config, store, cache, request)
        leftovers.collect_checkpoints(config, store, planned)
        if planned.accepted is not None:
            acceptances.write(config, planned.accepted)
        if not planned.due and compiled is None:
            result = _nothing_due(config, store, planned, display, call)
        else:
            result = _TfxRun(config, store, planned, lease, call).go(compiled)
        codes.append(result.exit_code)
    return result


def _end(call: OpenCall, facts: RunFacts, used: int | None = None) -> None:
    """Publishes how a call ended; `nothing due` if it ended well and no node ran."""
    idle = facts.exit_code == 0 and not any(node.state == "ran" for node in facts.nodes)
    nodes = tuple(
        {
            "id": node.id,
            "state": node.state,
            "seconds": node.seconds,
            "reason": node.reason,
            "records": node.records,
            "failures": list(node.failures),
        }
        for node in facts.nodes
    )
    call.end(
        facts.exit_code, facts.reason, nodes=nodes, records=dict(facts.records), metrics=dict(facts.metrics),
        drift=largest_drift(facts.drift), version=facts.model_version or "", live=facts.live_version, disk=used,
        **({"state": "nothing due"} if idle else {}),
    )  # fmt: skip


def _publish_schema(planned: Plan, display: Display) -> None:
    if planned.schema is not None and schema.publish(planned.schema):
        display.schema(planned.schema)


def _nothing_due(config: RunConfig, store: Store, planned: Plan, display: Display, call: OpenCall) -> RunResult:
    nodes = tuple(NodeFacts(p.node.id, p.action, 0.0, p.reason) for p in planned.nodes)
    facts = gather.facts(config, store, planned, nodes, run=call.run, started=_now(), seconds=0.0, error=None)
    up_to_date.note(config, planned)
    display.plan(planned, config)
    _publish_schema(planned, display)
    model_card.write_served(facts, config)
    _end(call, facts)
    display.summary(facts, config)
    return RunResult(facts.exit_code, facts)


class _TfxRun:
    """The part of a run that imports TFX."""

    def __init__(self, config: RunConfig, store: Store, planned: Plan, lease: Lease | None, call: OpenCall) -> None:
        self._config, self._store, self._plan, self._lease, self._call = config, store, planned, lease, call
        self._nodes: list[NodeFacts] = []
        self._has_started = False  # a node
        self._started, self._begun = _now(), time.monotonic()
        self._log = config.logs / f"{call.run}.log"
        self._events = EventLog(self._log.with_suffix(".jsonl"), call.run, config.name)

    def go(self, compiled: Any) -> RunResult:
        log.prepare_environment()
        self._events.write("run started", call=self._call.number, task=self._config.task.name, data=self._config.data)
        with log.diverted(self._log) as user:
            display = Display(user)
            error = self._attempt(compiled, display)
            if error is not None and not self._has_started:  # the report of the run before stays
                return self._ended_without_facts(error, display, "no node had started")
            try:
                facts = self._facts(error)
            except Exception:
                if error is None:
                    raise
                # The error of the run matters more than what keeps its report from being made.
                with suppress(OSError):  # the log may be on a full disk
                    traceback.print_exc()
                return self._ended_without_facts(error, display, "no report could be made; the log says why")
            if (unwritten := self._write_report(facts)) and error is None:
                error, facts = unwritten, self._facts(unwritten)
            with suppress(OSError):  # a full disk: the summary says so
                _end(self._call, facts, disk.used(self._config.state))
            if facts.model_version and any(node.id == "Pusher" and node.state == "ran" for node in self._nodes):
                self._events.write("pushed", version=facts.model_version, path=facts.model_path)
            self._events.ended(facts.exit_code, facts.outcome)
            display.summary(facts, self._config)
            if error is not None:
                display.failure(error, self._log)
            return RunResult(facts.exit_code, facts)

    def _ended_without_facts(self, error: BaseException, display: Display, note: str) -> RunResult:
        if isinstance(error, KeyboardInterrupt):
            display.say(f"{error}: {note}")
        display.failure(error, self._log)
        reason = str(error) or type(error).__name__
        with suppress(OSError):  # a full disk
            self._call.end(exit_code_of(error), reason)
        self._events.ended(exit_code_of(error), reason)
        return RunResult(exit_code_of(error))

    def _warn(self, display: Display, message: str) -> None:
        display.warning(message)
        self._events.write("warning", message=message)

    def _say(self, display: Display, message: str) -> None:
        display.say(message)
        self._events.write("message", message=message)

    def _report(self, display: Display, made: Progress) -> None:
        display.progress(made)
        self._events.progress(made)

    def _attempt(self, compiled: Any, display: Display) -> BaseException | None:
        try:
            with interrupt.raised(), display.live(), progress.warnings_to(partial(self._warn, display)):
                progress.listen(partial(self._report, display), partial(self._say, display))
                self._run_nodes(compiled, display)
        except KeyboardInterrupt as error:
            self._close_executions("CANCELED")
            return error
        except Exception as error:  # noqa: BLE001 - it is shown, logged and decides the exit code
            with suppress(OSError):  # the log may be on a full disk
                traceback.print_exc()
            with suppress(Exception):  # the metadata itself may have failed; the next run closes the executions
                self._close_executions("FAILED")
            return self._explained(error)
        return None

    def _close_executions(self, state: str) -> None:
        if not self._has_lost_lock():  # else the open ones are those of the run that has it now
            self._store.close_open_executions(state)

    def _has_lost_lock(self) -> bool:
        return self._lease is not None and self._lease.is_lost

    def _run_nodes(self, compiled: Any, display: Display) -> None:
        engine = engines.prepare_run(self._config, self._plan, lock.identity_of(self._config))
        display.loading()
        gc.disable()  # collections during the imports find nothing, and take a fourth of their time
        try:
            from pipelines.orchestration import build
            from pipelines.orchestration.local_runner import Hooks, LocalRunner
        finally:
            gc.enable()
        gc.freeze()  # the imported modules stay: a collection that visits them again takes most of a second

        def started(planned: NodePlan) -> None:
            self._has_started = True
            display.started(planned)
            self._events.node_started(planned.node.id, planned.reason)

        def failed(planned: NodePlan, tried: "FailedTry") -> None:
            display.warning(f"{planned.node.id}: {tried}")
            self._events.write("try failed", node=planned.node.id, number=tried.number, reason=tried.reason,
                               message=tried.message, wait=tried.wait)  # fmt: skip
            traceback.print_exception(tried.error)

        def clean() -> None:
            self._close_executions("FAILED")
            leftovers.collect(self._config, self._store)

        def finished(node: NodeFacts) -> None:
            self._nodes.append(node)
            display.finished(node)
            self._events.write(
                "node failed" if node.state == "failed" else "node finished",
                node=node.id, state=node.state, seconds=round(node.seconds, 3), records=node.records,
                samples_per_second=node.samples_per_second, note=node.note or None,
            )  # fmt: skip
            if node.id == "Schema" and node.state != "failed":
                _publish_schema(self._plan, display)

        if self._plan.schema is not None:
            schema.write_input(self._config, self._plan.schema)
        pipeline = compiled if compiled is not None else build.compiled(self._config, *self._schema())
        if self._plan.of("Ingest").action != plan.RUN:
            cached.forget()  # otherwise Ingest does it when it has finished
        hooks = Hooks(started, failed, clean, finished)
        LocalRunner(self._config, self._plan, hooks, engine, self._call.context, self._lease).run(pipeline)

    def _schema(self) -> tuple[bytes, Path]:
        """Returns the schema that configures the nodes, of this plan or of a Schema node that is kept, and its file."""
        if self._plan.schema is not None:
            return schema.in_force(self._config, self._plan.schema), self._plan.schema.file
        kept = self._plan.of("Schema").outputs
        return schema.of_artifact(self._config, kept[0].uri) if kept else schema.current(self._config)

    def _facts(self, error: BaseException | None) -> RunFacts:
        done = {node.id for node in self._nodes}
        left = tuple(
            NodeFacts(p.node.id, "skipped", 0.0, p.reason if p.action == plan.SKIP else "not reached")
            for p in self._plan.nodes
            if p.node.id not in done
        )
        seconds = time.monotonic() - self._begun
        return gather.facts(
            self._config, self._store, self._plan, (*self._nodes, *left), run=self._call.run,
            started=self._started, seconds=seconds, error=error,
        )  # fmt: skip

    def _write_report(self, facts: RunFacts) -> Exception | None:
        """Writes the report and the model card; returns the reason if their disk is full."""
        from pipelines.report import page

        try:
            page.write(facts, self._config.report, self._config.report_of(self._call.run))
            model_card.write(facts, self._config)
            if not self._has_lost_lock():  # else the reports on the store are those of the run that has it now
                has_ingested = any(node.id == "Ingest" and node.state != "cached" for node in self._nodes)
                quarantined = [self._config.quarantine_list] if has_ingested else []  # else of an earlier run
                card = self._config.state / model_card.FILE
                remote_root.upload_reports(self._config, self._config.report, card, *quarantined)
        except OSError as error:
            return self._explained(error)
        return None

    def _explained(self, error: Exception) -> Exception:
        """Returns an error, or DiskFull or BadInput in its place if a disk or an object store caused it."""
        full = disk.full(error, disk.places_of_run(self._config), lambda: _needed(self._config))
        return full or unreachable(error) or error


def _needed(config: RunConfig) -> str:
    cache = HashCache(config.hash_cache, read_only=True)
    return disk.needed_for(cached.take(config.data, config.settings.ingest, cache, config.needs))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
