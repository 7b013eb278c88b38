"""The runs of a pipeline, read-only: `runs(pipeline)` and `run(pipeline, id)`.

    MLMD: executions by pipeline_run context ─┐
                                              ├─► one Run per run id, newest first
    journal: the calls of each run           ─┘

Nodes, their states and times, metrics and versions are those of the metadata. That a run had nothing to do, its exit
code, the reason and which process works on it are those of its calls. A run that another machine started has no calls
here, if the metadata is on a server; what is known of it is what the metadata has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from components.errors import SettingsError
from pipelines.journal import calls, events, run_id
from pipelines.journal.calls import Call, CallState
from pipelines.orchestration.metadata.store import Execution, Store
from pipelines.orchestration.outcome import largest_drift
from pipelines.watch.pipelines import KnownPipeline

_NAMED = 3  # runs in a message
RunState = CallState | Literal["killed"]
NodeState = Literal["running", "ran", "cached", "failed", "cancelled", "killed"]
_NODE_STATES: Mapping[str, NodeState] = {
    "NEW": "running",
    "RUNNING": "running",
    "COMPLETE": "ran",
    "CACHED": "cached",
    "FAILED": "failed",
    "CANCELED": "cancelled",
}


@dataclass(frozen=True)
class NodeRun:
    """One node in one run."""

    node: str
    state: NodeState
    started: str  # ISO 8601, UTC
    ended: str  # empty while it runs
    seconds: float
    reason: str = ""  # why it ran, or why it was up to date
    records: int | None = None  # that it read
    execution: int = 0  # its id in MLMD
    failures: tuple[str, ...] = ()  # of the tries that failed and were repeated: why


@dataclass(frozen=True)
class Run:
    """One run: all calls with its id."""

    id: str
    pipeline: str
    state: RunState
    started: str  # ISO 8601, UTC
    ended: str  # empty while it runs, and if it was killed
    seconds: float  # of all its calls
    nodes: tuple[NodeRun, ...] = ()  # that ran, or whose earlier outputs were used, in order
    exit_code: int | None = None
    reason: str = ""  # one sentence
    records: Mapping[str, int] = field(default_factory=dict)  # by split
    metrics: Mapping[str, float] = field(default_factory=dict)
    drift: float | None = None  # largest comparison of the Gate / its threshold; above 1 is a finding
    version: str = ""  # that it pushed; of a run in which the Pusher was up to date, that is pushed already
    live: int | None = None  # version that was live at its end
    settings: Mapping[str, Any] = field(default_factory=dict)  # that are not the defaults
    data: str = ""
    calls: tuple[Call, ...] = ()
    log: Path | None = None  # what libraries printed; None if it ran no node
    report: Path | None = None  # its report page; None if it has none, or it was collected

    @property
    def node(self) -> NodeRun | None:
        """The node that runs now."""
        return next((each for each in self.nodes if each.state == "running"), None)

    @property
    def has_pushed(self) -> bool:
        """Whether it pushed a model."""
        return bool(self.version) and any(each.node == "Pusher" and each.state == "ran" for each in self.nodes)


def runs(pipeline: KnownPipeline, newest: int | None = None) -> list[Run]:
    """Returns the runs of a pipeline, newest first.

    Args:
        pipeline: which one.
        newest: how many; None: all.
    """
    files = calls.files(pipeline.calls)[:newest]
    written = {found[0].run: found for file in files if (found := calls.read(file))}
    executions = _by_run(Store(pipeline.metadata, pipeline.name).by_run(newest))
    for run in executions.keys() - written.keys():
        written[run] = calls.read(pipeline.calls / f"{run}.json")
    made = [_run(pipeline, run, found, executions.get(run, [])) for run, found in written.items()]
    return sorted(made, key=lambda each: (each.started, each.id), reverse=True)[:newest]


def run(pipeline: KnownPipeline, wanted: str) -> Run:
    """Returns the run of this id, or of the only one that begins with it; `last` is the newest."""
    known = runs(pipeline, 1) if wanted == "last" else runs(pipeline)
    found = [each for each in known if wanted in ("last", each.id)] or [
        each for each in known if wanted and each.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(
            f"run {wanted}: {len(found)} runs begin with it; expected more of the id, as in {found[0].id}"
        )
    if not known:
        start = f"penstock run {pipeline.task or 'TASK'}"
        raise SettingsError(f"run {wanted}: pipeline {pipeline.name} has no runs yet; start one with {start}")
    names = ", ".join(each.id for each in known[:_NAMED])
    raise SettingsError(
        f"run {wanted}: pipeline {pipeline.name} has no such run; expected one of penstock runs list, such as {names}"
    )


def has(pipeline: KnownPipeline, wanted: str) -> bool:
    """Whether a pipeline has a run whose id is this, or begins with it; `last` is any."""
    if wanted == "last":
        return bool(runs(pipeline, 1))
    return bool(wanted) and any(each.id.startswith(wanted) for each in runs(pipeline))


def _by_run(contexts: Mapping[str, Sequence[Execution]]) -> dict[str, list[Execution]]:
    """Returns the executions of each run, of all its calls, in order."""
    found: dict[str, list[Execution]] = {}
    for name, executions in contexts.items():
        found.setdefault(run_id.of_context(name), []).extend(executions)
    return {run: sorted(executions, key=lambda each: each.id) for run, executions in found.items()}


def _run(pipeline: KnownPipeline, run: str, made: Sequence[Call], executions: Sequence[Execution]) -> Run:
    is_running = bool(made) and not made[-1].ended and calls.is_held(pipeline.calls / f"{run}.json")
    is_killed = bool(made) and not made[-1].ended and not is_running
    died = events.last_time(pipeline.logs / f"{run}.jsonl") if is_killed else ""
    nodes = tuple(_nodes(executions, made, died, is_open=is_running or not made))
    state = _state(made, nodes, is_running=is_running)
    ended = made[-1].ended if made else max((node.ended for node in nodes if state != "running"), default="")
    name = run.replace("/", "_")  # no id of ours has one; that of another program would lead out of the folder
    log, report = (pipeline.logs / f"{name}.{kind}" for kind in ("log", "html"))
    last = made[-1] if made else None
    return Run(
        id=run,
        pipeline=pipeline.name,
        state=state,
        started=made[0].started if made else nodes[0].started,
        ended=ended,
        seconds=_seconds_of_calls(made, nodes, calls.now() if is_running else died),
        nodes=nodes,
        exit_code=last.exit_code if last else None,
        reason=calls.KILLED if state == "killed" else last.reason if last else "",
        records=_newest(each.records for each in made),
        metrics=_metrics(executions) or _newest(each.metrics for each in made),
        drift=last.drift if last and last.drift is not None else _drift(executions),
        version=_version(executions) or (last.version if last else ""),
        live=last.live if last else None,
        settings=last.settings if last else {},
        data=last.data if last else "",
        calls=tuple(made),
        log=log if log.is_file() else None,
        report=report if report.is_file() else None,
    )


def _state(made: Sequence[Call], nodes: Sequence[NodeRun], *, is_running: bool) -> RunState:
    if made and not made[-1].ended:
        return "running" if is_running else "killed"
    if made:
        has_run = any(call.state == "succeeded" for call in made)
        return "succeeded" if made[-1].state == "nothing due" and has_run else made[-1].state
    states = {node.state for node in nodes}
    worst: tuple[RunState, ...] = ("running", "killed", "failed", "cancelled")
    return next((state for state in worst if state in states), "succeeded")


def _nodes(executions: Sequence[Execution], made: Sequence[Call], died: str, *, is_open: bool) -> Iterable[NodeRun]:
    """Yields each node once, with its last execution; that a later call used what an earlier one made, is left out.

    Args:
        executions: of the run.
        made: its calls.
        died: when its last call wrote its last event, if that call was killed; else empty.
        is_open: whether an execution without an end runs.
    """
    known = _of_calls(made)
    last: dict[str, Execution] = {}
    for each in executions:
        before = last.get(each.node)
        if before is None or each.state != "CACHED" or before.state != "COMPLETE":
            last[each.node] = each
    for node, execution in last.items():
        state = _NODE_STATES.get(execution.state, "failed")
        if execution.killed or (state == "running" and not is_open):
            state = "killed"
        said = known.get(node, {})
        yield NodeRun(
            node=node,
            state=state,
            started=_time(execution.created),
            ended="" if state in ("running", "killed") else _time(execution.updated),
            seconds=max(0.0, _end(execution, state, died) - execution.created) / 1000,
            reason=said.get("reason", ""),
            records=execution.ledger["records_in"] if execution.ledger else said.get("records"),
            execution=execution.id,
            failures=tuple(said.get("failures", ())),
        )


def _end(execution: Execution, state: NodeState, died: str) -> float:
    """Returns when an execution ended, or until when it is known to have run: milliseconds since 1970."""
    if state == "running":
        return datetime.now(timezone.utc).timestamp() * 1000
    if state == "killed":
        return datetime.fromisoformat(died).timestamp() * 1000 if died else execution.created
    return execution.updated


def _of_calls(made: Sequence[Call]) -> dict[str, Mapping[str, Any]]:
    """Returns what the calls say of each node: the last that ran it, else the first that used its earlier outputs."""
    known: dict[str, Mapping[str, Any]] = {}
    for call in made:
        for each in call.nodes:
            if each["id"] not in known or each["state"] in ("ran", "failed"):
                known[each["id"]] = each
    return known


def _seconds_of_calls(made: Sequence[Call], nodes: Sequence[NodeRun], last: str) -> float:
    """Returns the time of all calls; `last` is until when the last one worked if it has no end, empty if not known."""
    if not made:
        return sum(node.seconds for node in nodes)
    ends = [call.ended or _known_until(call, following.started, nodes) for call, following in pairwise(made)]
    ends.append(made[-1].ended or max(last, _known_until(made[-1], calls.now(), nodes)))
    spans = zip(ends, made, strict=True)
    return sum(
        (datetime.fromisoformat(end) - datetime.fromisoformat(call.started)).total_seconds() for end, call in spans
    )


def _known_until(call: Call, following: str, nodes: Sequence[NodeRun]) -> str:
    """Returns until when a killed call is known to have worked, by the nodes that ended before the following one."""
    return max([call.started, *(node.ended for node in nodes if node.ended <= following)])


def _metrics(executions: Sequence[Execution]) -> dict[str, float]:
    found = [each.facts.get("metrics") for each in executions if each.node == "Evaluator" and each.facts]
    return {name: value for name, value in (found[-1] or {}).items() if name != "examples"} if found else {}


def _drift(executions: Sequence[Execution]) -> float | None:
    found = [each.facts.get("drift") for each in executions if each.node == "Gate" and each.facts]
    return largest_drift(found[-1]) if found and found[-1] else None


def _version(executions: Sequence[Execution]) -> str:
    found = [each.facts for each in executions if each.node == "Pusher" and each.facts.get("pushed")]
    return str(found[-1]["version"]) if found else ""


def _newest(values: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the last of some mappings that is not empty."""
    return next((each for each in reversed(list(values)) if each), {})


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="milliseconds")
