"""The lineage of a model: spans ─► examples ─► transform ─► model ─► evaluation ─► version, with base and baseline.

Gathered from the metadata, and from the manifest of the examples. Steps that a run did not reach are missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from components.records import spans
from components.records.manifest import Manifest
from components.serving.live import LivePointer
from pipelines.orchestration.metadata.store import Artifact, Execution, Store

State = Literal["made", "kept", "earlier", "missing"]  # in this run, by an earlier run, before it, not at all
SPANS_SHOWN = 7  # the newest ones
BASE, BASELINE = "base", "baseline"

Outputs = Mapping[str, Mapping[str, Artifact]]  # node -> name -> artifact


@dataclass(frozen=True)
class LineageStep:
    """An artifact, or a served version, and what it was made from."""

    key: str
    name: str
    state: State
    id: str = ""  # in the metadata
    details: tuple[str, ...] = ()
    time: str = ""  # ISO 8601, UTC
    made_from: tuple[str, ...] = ()  # keys


def steps(
    store: Store,
    used: Mapping[str, Execution],
    outputs: Outputs,
    made: set[str],
    pointer: LivePointer | None,
    *,
    ingested: Manifest | None,
    new_spans: Sequence[str],
    shown: Mapping[str, Sequence[str]],
) -> tuple[LineageStep, ...]:
    """Returns the steps of a run, those before the ones that are made from them.

    Args:
        store: the metadata.
        used: the execution of each node.
        outputs: its artifacts.
        made: nodes that ran in this run.
        pointer: the live pointer, if there is one.
        ingested: manifest of the examples.
        new_spans: that the live model was not trained on.
        shown: more details, by step.
    """
    if ingested is None:
        return ()
    first = list(_data(ingested, new_spans, "made" if "Ingest" in made else "kept"))
    found = [*first]
    parents = tuple(step.key for step in first)
    for node, name, title in _CHAIN:
        artifact = outputs.get(node, {}).get(name)
        if artifact is None:
            if node != "Extract":
                found.append(LineageStep(title, title, "missing", details=("not reached",), made_from=parents))
                return tuple(found)
            continue
        execution = used[node]
        before = list(_models_before(store, execution, pointer)) if node in ("Trainer", "Evaluator") else []
        state: State = "made" if node in made else "kept"
        keys = (*parents, *(step.key for step in before))
        details = (*shown.get(title, ()), *(_counts(ingested) if node == "Ingest" else ()))
        found += [each for each in before if each.key not in {step.key for step in found}]
        found.append(LineageStep(title, title, state, str(artifact.id), tuple(details), _time(execution.updated), keys))
        parents = (title,)
    found.append(_version(used, outputs, made, pointer, parents))
    return tuple(found)


_CHAIN = (
    ("Ingest", "examples", "examples"),
    ("Extract", "extracted", "embeddings"),
    ("Transform", "transform_graph", "transform"),
    ("Trainer", "model", "model"),
    ("Evaluator", "evaluation", "evaluation"),
)


def _data(ingested: Manifest, new_spans: Sequence[str], state: State) -> Iterator[LineageStep]:
    """Yields a step per span, the older ones together; of data without spans, its files. `state`: of what is new."""
    names = ingested.spans
    if not names:
        yield LineageStep("data", "data", state, details=(_plural(ingested.sources.files, "file"),))
        return
    records = {name: sum(ingested.records_of(name).values()) for name in names}
    older = names[: max(0, len(names) - SPANS_SHOWN)]
    if older:
        total = sum(records[name] for name in older)
        yield LineageStep("older spans", f"{len(older)} older spans", "earlier", details=(_plural(total, "record"),))
    for name in names[len(older) :]:
        is_new = name in new_spans
        details = (f"{_plural(records[name], 'record')}{', new' if is_new else ''}",)
        title = f"span {spans.text(name)}"
        yield LineageStep(title, title, state if is_new else "earlier", details=details)


def _counts(ingested: Manifest) -> tuple[str, ...]:
    held_out = sum(count for split, count in ingested.records.items() if split != "train")
    total = sum(ingested.records.values())
    return (_plural(total, "record"), f"{held_out:,} held out", f"{ingested.quarantined:,} quarantined")


def _models_before(store: Store, execution: Execution, pointer: LivePointer | None) -> Iterator[LineageStep]:
    """Yields the model that training started from, or that the candidate was compared with."""
    read = store.inputs(execution.id)
    for key, name in ((BASE, "base_model"), (BASELINE, "baseline_model")):
        if (model := read.get(name)) is None:
            continue
        moves = [move for move in (pointer.moves if pointer else ()) if move.model.artifact == model.id]
        version = f"version {moves[-1].version}" if moves else "not a version"
        yield LineageStep(key, f"{key} model", "earlier", str(model.id), (version,), moves[-1].time if moves else "")


def _version(
    used: Mapping[str, Execution],
    outputs: Outputs,
    made: set[str],
    pointer: LivePointer | None,
    parents: tuple[str, ...],
) -> LineageStep:
    pushed = used["Pusher"].facts if "Pusher" in used else {}
    if not pushed.get("pushed"):
        live = (f"version {pointer.live.version} stays live",) if pointer else ()
        return LineageStep("version", "not pushed", "missing", details=live, made_from=parents)
    is_live = pointer is not None and pointer.live.folder == pushed["destination"]
    artifact = outputs["Pusher"].get("pushed_model")
    details = ("live" if is_live or pointer is None else f"version {pointer.live.version} is live",)
    state: State = "made" if "Pusher" in made else "kept"
    time = _time(used["Pusher"].updated)
    return LineageStep(
        "version", f"version {pushed['version']}", state, str(artifact.id) if artifact else "", details, time, parents
    )


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds")


def details(results: Mapping[str, Mapping[str, Any]], transform: Artifact | None) -> dict[str, list[str]]:
    """Returns what the results of the nodes add to the steps."""
    trainer, evaluator = results.get("Trainer", {}), results.get("Evaluator", {})
    metrics = evaluator.get("metrics", {})
    found: dict[str, list[str]] = {}
    if transform and "spans_analyzed" in transform.properties:
        read, kept = (transform.properties.get(f"spans_{each}", 0) for each in ("analyzed", "reused"))
        found["transform"] = [f"{_plural(int(read), 'span')} analyzed", f"{int(kept):,} kept"]
    if "epochs" in trainer:
        found["model"] = [_plural(trainer["epochs"], "epoch")]
    if metrics:
        name = "accuracy" if "accuracy" in metrics else "r2"
        found["evaluation"] = [
            _plural(int(metrics.get("examples", 0)), "test record"),
            *([f"{name.replace('r2', 'R²')} {metrics[name]:.4f}"] if name in metrics else []),
        ]
    return found
