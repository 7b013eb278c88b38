"""What the page shows about a retraining: which gate decided and why, and the candidate against the live model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from components.errors import GateStopped
from pipelines.report.facts import RunFacts, SliceFacts
from pipelines.report.formatting import number

_NOT_REACHED = "not reached"
_NAMED = 3  # findings in a sentence
_PLOT, _EDGE = 180.0, 7.0  # width of the plot of a slice, and what its marks need at both ends


@dataclass(frozen=True)
class GateRow:
    """What one gate decided."""

    name: str
    verdict: str
    kind: str  # the state that gives colour and symbol
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Against:
    """The candidate and the live model on one slice, or on all test records."""

    slice: SliceFacts
    live: float
    plot: tuple[float, float, float] | None  # x coordinates: lowest value that is allowed, live model, candidate

    @property
    def allowed_by(self) -> str:
        """What the allowed drop comes from, in a word or two."""
        limit = self.slice.limit
        return "chance" if limit.startswith("what chance") else "chance, bounded" if "chance" in limit else limit

    @property
    def label(self) -> str:
        """The plot in words."""
        found = self.slice
        return f"candidate {number(found.metric)}, live model {number(self.live)}, on {number(found.records)} records"


def gates(facts: RunFacts) -> list[GateRow]:
    """Returns the gates of a run in the order in which they decide; those after a stop have not decided."""
    if not _state(facts, "Gate"):
        return []
    by_gate = [failed] if (failed := _failed(facts, "Gate")) else [_data(facts), _spans(facts)]
    return [row for row in (*by_gate, _start(facts), *_evaluator(facts), _push(facts)) if row]


def decided(rows: Sequence[GateRow]) -> str:
    """Returns which gate decided, in a sentence."""
    stop = next((row for row in rows if row.kind == "failed"), None)
    if stop:
        return f"{stop.name}: {stop.verdict}."
    if any(row.verdict == _NOT_REACHED for row in rows):
        return "The run ended before all gates were reached."
    return (
        "All gates passed, one with a warning." if any(row.kind == "warning" for row in rows) else "All gates passed."
    )


def against(facts: RunFacts) -> list[Against]:
    """Returns the candidate against the live model: all test records first, then slices, the worst change first."""
    slices = [each for each in facts.slices if each.change is not None]
    slices.sort(key=lambda each: (each.passed is not False, each.change or 0.0, each.column, each.value))
    found = [*([facts.compared] if facts.compared else []), *slices]
    spread = [bound for each in found for bound in _bounds(each)]
    low, high = min(spread, default=0.0), max(spread, default=0.0)

    def x(value: float) -> float:
        return _EDGE + (_PLOT - 2 * _EDGE) * ((value - low) / (high - low) if high > low else 0.5)

    return [
        Against(each, each.metric - (each.change or 0.0), (x(bounds[0]), x(bounds[1]), x(bounds[2])))
        for each in found
        for bounds in [_bounds(each)]
    ]


def _bounds(found: SliceFacts) -> tuple[float, float, float]:
    live = found.metric - (found.change or 0.0)
    return max(live - (found.allowed or 0.0), min(0.0, found.metric, live)), live, found.metric


def _state(facts: RunFacts, node: str) -> str:
    return next((each.state for each in facts.nodes if each.id == node), "")


def _failed(facts: RunFacts, node: str) -> GateRow | None:
    """Returns that a node failed by an error, and not by what it found."""
    if _state(facts, node) != "failed" or facts.exit_code == GateStopped.exit_code:
        return None
    verdict, _, reason = facts.outcome.partition(": ")
    return GateRow(node, verdict, "failed", (reason,))


def _data(facts: RunFacts) -> GateRow | None:
    name = "Data: schema, splits, classes"
    state = _state(facts, "Gate")
    if facts.gate_problems:
        return GateRow(name, "stopped the run", "failed", facts.gate_problems)
    if state == "skipped":
        return GateRow(name, _NOT_REACHED, "skipped", ())
    return GateRow(name, "passed", "ran", ()) if state else None


def _spans(facts: RunFacts) -> GateRow | None:
    name = "New spans against the live model's data"
    state, rows = _state(facts, "Gate"), facts.drift.get("measures", ())
    if not state or state == "skipped" or (facts.gate_problems and not facts.drift):
        return None
    if not rows:
        return GateRow(name, "not compared", "skipped", tuple(facts.drift.get("notes", ())))
    found = [row for row in rows if row["value"] > row["threshold"]]
    still_open = [row for row in found if row["open"]]
    accepted = [
        f"{each['finding']} accepted by {each['who']} at {each['when']}: {each['because']}"
        for each in facts.drift.get("accepted", ())
        if each["finding"] in {row["id"] for row in found}
    ]
    said = [
        f"{row['id']} is {number(row['value'])}, expected at most {number(row['threshold'])} ({row['setting']})"
        for row in still_open
    ]
    reasons = (*said, *accepted)
    if still_open and state == "failed":
        return GateRow(name, "stopped the run", "failed", reasons)
    if still_open:
        return GateRow(name, "warning", "warning", reasons)
    if accepted:
        return GateRow(name, "passed, with accepted findings", "ran", reasons)
    return GateRow(name, "passed", "ran", (f"{len(rows)} comparisons, all within their thresholds",))


def _start(facts: RunFacts) -> GateRow | None:
    """Returns which of two trainings goes on, if `train.cold_check` has compared them."""
    if not facts.start:
        return None
    is_kept = facts.start.startswith("warm start")
    return GateRow(
        "Trainer: warm start against a cold start",
        f"{'warm' if is_kept else 'cold'} start goes on",
        "ran",
        (facts.start.partition(": ")[2],),
    )


def _evaluator(facts: RunFacts) -> Iterator[GateRow]:
    names = ("Evaluator: minimum", "Evaluator: all test records against the live model")
    if not facts.thresholds:
        if failed := _failed(facts, "Evaluator"):
            yield failed
        if _state(facts, "Evaluator") == "skipped":
            yield GateRow("Evaluator", _NOT_REACHED, "skipped", ())
        return
    for place, row in enumerate(facts.thresholds):
        name = names[place] if place < len(names) and (place == 0 or facts.compared) else f"Evaluator: {row.metric}"
        verdict = ("passed", "ran") if row.passed else ("not blessed", "failed")
        yield GateRow(name, *verdict, (f"{row.metric} {number(row.value)}, expected {row.threshold}",))
    slices = [each for each in facts.slices if each.passed is not None]
    if not slices:
        return
    worse = [each for each in slices if not each.passed]
    reasons = [f"{each.column} = {each.value}: {_change(each)}" for each in worse[:_NAMED]]
    left = [f"and {len(worse) - _NAMED} more slices"] if len(worse) > _NAMED else []
    lowest = min(slices, key=lambda each: each.change or 0.0)
    fine = f"{len(slices)} slices; lowest change: {lowest.column} = {lowest.value}: {_change(lowest)}"
    verdict = ("not blessed", "failed") if worse else ("passed", "ran")
    yield GateRow("Evaluator: slices against the live model", *verdict, (*reasons, *left) if worse else (fine,))


def signed(change: float) -> str:
    """Returns a change with its sign; no change is +0.0000."""
    return f"{round(change, 4) + 0.0:+.4f}"


def _change(found: SliceFacts) -> str:
    limit = f" ({found.limit})" if found.limit else ""
    drop = f", allowed drop {number(found.allowed)}{limit}" if found.allowed is not None else ""
    return f"{signed(found.change or 0.0)} on {number(found.records)} records{drop}"


def _push(facts: RunFacts) -> GateRow | None:
    state = _state(facts, "Pusher")
    if not state:
        return None
    if failed := _failed(facts, "Pusher"):
        return failed
    if facts.model_version:
        return GateRow("Pusher", f"pushed as version {facts.model_version}", "ran", ())
    if facts.blessed is None:
        return GateRow("Pusher", _NOT_REACHED, "skipped", ())
    return GateRow("Pusher", "not pushed", "skipped", (facts.outcome,) if facts.blessed else ())
