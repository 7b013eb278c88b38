"""Gathers the facts of a run from MLMD and from the small files in its artifacts."""

import gzip
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.errors import GateStopped, NotBlessed, exit_code_of
from components.records import manifest
from components.records.ledger import Entry
from components.redact import redact
from components.serving.live import LivePointer, Move
from components.storage.location import Location
from pipelines.config import RunConfig
from pipelines.orchestration import plan
from pipelines.orchestration.metadata import live_model
from pipelines.orchestration.metadata.store import Artifact, Execution, Store
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.plan import Plan
from pipelines.orchestration.remote.mirror import near
from pipelines.report import lineage, model_card, trained
from pipelines.report.facts import RunFacts, SampleImage, SliceFacts, Threshold
from pipelines.report.lineage import LineageStep

_QUARANTINE_SHOWN = 200
_REASONS_SHOWN = 10
_SAMPLES = 30


def facts(
    config: RunConfig, store: Store, planned: Plan, nodes: tuple[NodeFacts, ...],
    *, run: str, started: str, seconds: float, error: BaseException | None,
) -> RunFacts:  # fmt: skip
    """Returns the facts of a run, whether it succeeded or failed."""
    used = _executions(store, planned, nodes)
    outputs = {node: {a.name: a for a in store.outputs(execution.id)} for node, execution in used.items()}
    blessed = _blessed(outputs)
    results = {node: execution.facts for node, execution in used.items()}
    pushed, evaluated = results.get("Pusher", {}), results.get("Evaluator", {})
    pointer = None if error else live_model.pointer_of(config, store)  # the error may be that it cannot be read
    classes = tuple(results.get("Transform", {}).get("classes", ()))
    found = RunFacts(
        pipeline=config.name,
        task=config.task.name,
        run=run,
        started=started,
        seconds=seconds,
        outcome=_outcome(planned, blessed, pushed, evaluated, error, pointer.live if pointer else None),
        exit_code=exit_code_of(error) if error else NotBlessed.exit_code if blessed is False else 0,
        nodes=nodes,
        ledger=tuple(Entry(**e.ledger) for e in used.values() if e.ledger),
        classes=classes,
        confusion=_confusion(len(classes), evaluated.get("confusion", ())),
        metrics={name: value for name, value in evaluated.get("metrics", {}).items() if name != "examples"},
        slices=tuple(_slice(each) for each in evaluated.get("slices", ())),
        thresholds=tuple(Threshold(*each) for each in evaluated.get("thresholds", ())),
        compared=_all_records(evaluated),
        gate_problems=_gate_problems(error),
        blessed=blessed,
        drift=getattr(error, "drift", None) or results.get("Gate", {}).get("drift", {}),
        start=planned.start,
        trained=str(outputs["Trainer"]["model"].uri) if "model" in outputs.get("Trainer", {}) else "",
        samples_per_second=results.get("Trainer", {}).get("samples_per_second"),
        model_path=pushed.get("destination"),
        model_version=pushed.get("version"),
        live_version=pointer.live.version if pointer else None,
        **_of_ingest(
            config,
            outputs.get("Ingest", {}),
            results.get("Transform", {}),
            with_samples=bool(seconds),
        ),
        **trained.facts(outputs.get("Trainer", {}), lambda folder: near(config, folder)),
    )
    if pointer and "Evaluator" in used and (model := outputs.get("Trainer", {}).get("model")):
        note = store.not_compared(pointer.baselines(model.id), model)
        found = replace(found, warnings=(*found.warnings, *filter(None, [note])))
    found = replace(found, lineage=_lineage(store, found, used, outputs, pointer))
    return replace(found, card=model_card.make(config, found, used, outputs))


def _slice(stored: Any) -> SliceFacts:
    """Returns a slice; of an evaluation of an earlier version, which is a list, without the comparison."""
    return SliceFacts(**stored) if isinstance(stored, dict) else SliceFacts(*stored)


def _all_records(evaluated: Mapping[str, Any]) -> SliceFacts | None:
    """Returns how the candidate compares with the baseline model on all test records."""
    compared, thresholds = evaluated.get("compared", {}), evaluated.get("thresholds", ())
    if compared.get("passed") is None or not thresholds:
        return None
    return SliceFacts("", "", thresholds[0][1], int(evaluated["metrics"]["examples"]), **compared)


def _gate_problems(error: BaseException | None) -> tuple[str, ...]:
    """Returns what is wrong with the data itself, if that is why the Gate stopped the run."""
    if not isinstance(error, GateStopped):
        return ()
    lines = str(error).splitlines()[1:]
    own = itertools.takewhile(lambda line: not line.startswith("  new span"), lines)
    return tuple(redact(line.strip()) for line in own)


def _lineage(
    store: Store,
    found: RunFacts,
    used: Mapping[str, Execution],
    outputs: Mapping[str, Mapping[str, Artifact]],
    pointer: LivePointer | None,
) -> tuple[LineageStep, ...]:
    """Returns the lineage of the run's model, as far as the run came."""
    examples = outputs.get("Ingest", {}).get("examples")
    ingested = manifest.read(examples.uri) if examples else None
    made = {node.id for node in found.nodes if node.state == "ran"}
    new = found.drift.get("spans") or ()
    if ingested and not found.drift and "Ingest" in made:
        new = _unknown(ingested.spans, pointer, outputs.get("Trainer", {}).get("model"))
    results = {node: execution.facts for node, execution in used.items()}
    return lineage.steps(
        store,
        used,
        outputs,
        made,
        pointer,
        ingested=ingested,
        new_spans=tuple(new),
        shown=lineage.details(results, outputs.get("Transform", {}).get("transform_graph")),
    )


def _unknown(spans: Sequence[str], pointer: LivePointer | None, model: Artifact | None) -> tuple[str, ...]:
    """Returns the spans that the model was not trained on that was live before this run's."""
    baselines = pointer.baselines(model.id if model else -1) if pointer else []
    return tuple(name for name in spans if not baselines or name not in baselines[0].spans)


def _executions(store: Store, planned: Plan, nodes: tuple[NodeFacts, ...]) -> dict[str, Execution]:
    """Returns the execution of each node that this run reached: a new one, or the cached one."""
    used: dict[str, Execution] = {}
    state = {node.id: node.state for node in nodes}
    for each in planned.nodes:
        if state.get(each.node.id) in ("failed", "skipped"):
            continue
        if each.execution is not None:
            used[each.node.id] = each.execution
        elif state.get(each.node.id) == "ran" and not each.node.resolves:
            newest = next(store.finished(each.node.id), None)
            if newest is not None:
                used[each.node.id] = newest
    return used


def _outcome(
    planned: Plan,
    blessed: bool | None,
    pushed: Mapping[str, Any],
    evaluated: Mapping[str, Any],
    error: BaseException | None,
    live: Move | None,
) -> str:
    if error is not None:
        kind = "cancelled" if isinstance(error, KeyboardInterrupt) else "failed"
        return f"{kind}: {(redact(str(error)) or type(error).__name__).splitlines()[0].removesuffix(':')}"
    if blessed is False:
        return "not blessed: " + "; ".join(evaluated.get("failures") or evaluated.get("tfma_failures", ()))
    other = f"; version {live.version} is live ({_moved(live)})" if live else ""
    if pushed.get("withdrawn"):
        return f"blessed, not pushed, because this model was withdrawn (penstock models promote brings it back){other}"
    if pushed.get("pushed"):
        is_live = live is None or live.folder == pushed["destination"]
        return f"blessed and pushed as version {pushed['version']}{'' if is_live else other}"
    skipped = [each.reason for each in planned.nodes if each.action == plan.SKIP]
    return f"stopped as requested ({skipped[0]})" if skipped else "finished"


def _moved(move: Move) -> str:
    return f"{move.kind} by {move.actor}: {move.reason}" if move.actor else move.kind


def _blessed(outputs: Mapping[str, Mapping[str, Artifact]]) -> bool | None:
    blessing = outputs.get("Evaluator", {}).get("blessing")
    return None if blessing is None else blessing.properties.get("blessed") == 1


def _of_ingest(
    config: RunConfig, outputs: Mapping[str, Artifact], fitted: Mapping[str, Any], *, with_samples: bool
) -> dict[str, Any]:
    if "examples" not in outputs:
        return {}
    folder = outputs["examples"].uri
    written = manifest.read(folder)
    bad = manifest.read_quarantine(folder)
    changed = [f"{count} images re-encoded: {why}" for why, count in written.changed.items()]
    return {
        "label": _label(written),
        "notes": (*written.notes, *([f"Transform: {fitted['spans']}"] if "spans" in fitted else [])),
        "class_counts": written.classes,
        "records": written.records,
        "quarantined": tuple(bad[:_QUARANTINE_SHOWN]),
        "quarantine_reasons": dict(Counter(each.reason for each in bad).most_common(_REASONS_SHOWN)),
        "quarantine_path": str(folder / manifest.QUARANTINE) if bad else None,
        "warnings": (*written.warnings_in(folder), *changed, *filter(None, [fitted.get("warning")])),
        "samples": _samples(near(config, folder), written) if with_samples else (),
    }


def _label(written: manifest.Manifest) -> str:
    classes = max(map(len, written.classes.values()), default=0)
    kind = f"classification in {classes:,} classes" if classes else "regression"
    return f"{written.label_source or 'names of the folders'}: {kind}" if written.label else ""


def _samples(folder: Location, written: manifest.Manifest) -> tuple[SampleImage, ...]:
    """Returns a few training images as they are stored, one per class in turn."""
    if not isinstance(folder, Path):  # no copy of the shards on this machine
        return ()
    from components.records.image_format import for_people

    by_class: dict[str, list[bytes]] = {name: [] for name in written.classes.get("train", {})}
    wanted = -(-_SAMPLES // max(1, len(by_class)))
    for features in _features(folder / shard.name for shard in written.shards_of("train")[:2]):
        if "image" not in features:  # no images in these records
            return ()
        label = features["label"].bytes_list.value
        images = by_class.setdefault(label[0].decode() if label else "", [])
        if len(images) < wanted and features["image"].bytes_list.value:
            images.append(features["image"].bytes_list.value[0])
        if all(len(each) >= wanted for each in by_class.values()):
            break
    samples = [
        SampleImage(name, for_people(images[turn]))
        for turn in range(wanted)
        for name, images in by_class.items()
        if turn < len(images)
    ]
    return tuple(samples[:_SAMPLES])


def _features(shards: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    """Yields the features of the records in the shards that are there.

    Not by tf.data: a signal that stops the run while TensorFlow initializes leaves a TensorFlow that runs nothing.
    """
    import tensorflow as tf

    from components.records.tfrecord.walk import read_records

    for shard in filter(Path.exists, shards):
        with shard.open("rb") as file, gzip.open(file) if shard.suffix == ".gz" else nullcontext(file) as stream:
            for record in read_records(stream, 0, None):
                yield tf.train.Example.FromString(record.data).features.feature


def _confusion(classes: int, cells: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, ...], ...]:
    matrix = [[0] * classes for _ in range(classes)]
    for actual, predicted, count in cells:
        if actual >= 0 and predicted >= 0:  # else a label that is no class, or a prediction that is not finite
            matrix[actual][predicted] = count
    return tuple(map(tuple, matrix)) if cells else ()
