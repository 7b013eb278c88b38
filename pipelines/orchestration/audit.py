"""Before a node: compares the shards that it reads with the manifest. After it: counts its records.

The counts come from the outputs themselves (statistics, vocabulary, history, evaluation), not from the code that wrote
them. A node that drops a record, on any Beam runner, is detected before its output is published.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from tensorflow_metadata.proto.v0 import statistics_pb2

from components.records import ledger, manifest, spans, verify
from components.storage.location import location

Uris = Mapping[str, Any]  # path or object path: the node's input or output artifacts by name


@dataclass(frozen=True)
class Audit:
    """What the outputs of one node say."""

    entry: ledger.Entry | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class ShardCheck:
    """Compares each shard with the manifest, once per run, before the first node that reads it.

    The Trainer compares its splits itself, because it may skip damaged records.
    """

    def __init__(self) -> None:
        """Starts without a checked shard."""
        self._checked: set[Path] = set()

    def before(self, node: str, inputs: Uris) -> None:
        """Raises BadInput if a shard that the node reads is not the one that was written."""
        if node not in _SPLITS_READ:
            return
        artifact, splits = inputs["examples"], _SPLITS_READ[node]
        shards = [
            shard
            for shard in manifest.read(artifact).shards
            if (not splits or shard.split in splits) and artifact / shard.name not in self._checked
        ]
        verify.check(artifact, shards)
        self._checked.update(artifact / shard.name for shard in shards)


def records_read(inputs: Uris) -> int:
    """Returns the bytes of the shards that a node reads; 0 if it reads none."""
    examples = inputs.get("examples")
    return sum(shard.bytes for shard in manifest.read(examples).shards) if examples else 0


def audit(
    node: str,
    inputs: Uris,
    outputs: Uris,
    parameters: Mapping[str, Any] | None = None,
    properties: Mapping[str, Any] | None = None,
) -> Audit:
    """Returns the counts of a node; raises LedgerMismatch if records were lost or added.

    Args:
        node: its name.
        inputs: what it has read.
        outputs: what it has written.
        parameters: of the node.
        properties: custom properties that it gave to its outputs.
    """
    parameters = parameters or {}
    custom_config = parameters.get("custom_config", "")
    if node == "StatisticsGen":
        audited = _statistics(inputs, outputs, parameters.get("live", ""))
    else:
        audited = _AUDITS[node](inputs, outputs) if node in _AUDITS else Audit()
    if audited.entry is not None:
        ledger.check(audited.entry)
    if node == "Transform" and custom_config:
        facts = {**audited.facts, **_truncated_texts(inputs, orjson.loads(custom_config)), **_spans(properties or {})}
        notes = "; ".join(filter(None, [facts.get("spans"), facts.get("warning")]))
        return Audit(audited.entry, {**facts, "note": notes})
    return audited


def _ingest(inputs: Uris, outputs: Uris) -> Audit:
    del inputs
    return Audit(manifest.read(outputs["examples"]).entry())


def _extract(inputs: Uris, outputs: Uris) -> Audit:
    read, written = (manifest.read(uri).records for uri in (inputs["examples"], outputs["extracted"]))
    return _by_split("Extract", read, written)


def _statistics(inputs: Uris, outputs: Uris, live: str) -> Audit:
    """Compares with the manifest: the records of all spans, or of those that the live model's examples lack."""
    made = manifest.read(inputs["examples"])
    new = spans.unseen(inputs["examples"], location(live)) if live else ()
    read = [shard for shard in made.shards if not new or manifest.span_of(shard.name) in new]
    expected = {split: sum(each.records for each in read if each.split == split) for split in made.classes}
    counted = dict.fromkeys(expected, 0)
    for file in sorted(outputs["statistics"].glob("Split-*/FeatureStats.pb")):
        stats = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read_bytes())
        counted[file.parent.name.removeprefix("Split-")] = sum(dataset.num_examples for dataset in stats.datasets)
    audited = _by_split("StatisticsGen", expected, counted)
    return Audit(audited.entry, {"note": f"statistics of new {spans.named(new)} alone"}) if new else audited


def _gate(inputs: Uris, outputs: Uris) -> Audit:
    del inputs
    stored = orjson.loads((outputs["verdict"] / "verdict.json").read_bytes())
    return Audit(facts={"drift": stored["drift"]} if stored.get("drift") else {})


def _by_split(node: str, expected: Mapping[str, int], counted: Mapping[str, int]) -> Audit:
    """Checks every split: one may not gain what another loses."""
    for split, records in expected.items():
        ledger.check(ledger.Entry(f"{node}, split {split}", records, counted[split]))
    return Audit(ledger.Entry(node, sum(expected.values()), sum(counted.values())))


def _transform(inputs: Uris, outputs: Uris) -> Audit:
    import tensorflow_transform as tft

    from components.fitting import fitted

    train = manifest.read(inputs["examples"]).records["train"]
    output = tft.TFTransformOutput(str(outputs["transform_graph"]))
    facts = {"classes": fitted.class_names(output)}
    return Audit(ledger.Entry("Transform", train, sum(fitted.label_counts(output).values())), facts)


def _spans(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how many spans Transform has read; nothing if the data has no spans."""
    read, reused, rejected = (properties.get(name) for name in ("spans_analyzed", "spans_reused", "spans_rejected"))
    if read is None or reused is None:
        return {}
    again = f" ({rejected} again: what was kept of it was damaged)" if rejected else ""
    return {"spans": f"{read} of {read + reused} spans analyzed{again}, {reused} kept from earlier runs"}


def _truncated_texts(inputs: Uris, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the number of texts per split that are longer than the model's maximum, and a warning about them."""
    texts = [column["name"] for _, columns in config["parts"] for column in columns if column["role"] == "text"]
    if not texts:
        return {}
    from components.fitting import truncation
    from components.settings.transform import Fit

    settings = Fit.model_validate(config["settings"])
    counts = truncation.count(inputs["examples"], texts, settings)
    splits = ", ".join(f"{split} {count:,}" for split, count in counts.items() if count)
    note = f"{sum(counts.values()):,} texts cut to input.max_tokens = {settings.max_tokens:,} ({splits})"
    return {"truncated": counts, "warning": note if splits else ""}


def _trainer(inputs: Uris, outputs: Uris) -> Audit:
    """Checks that every epoch read every record of the train and eval splits once."""
    history = orjson.loads((outputs["model_run"] / "history.json").read_bytes())
    records = manifest.read(inputs["examples"]).records
    epochs, unread = history["epochs"], history["unread"]
    for split, seen in (("train", epochs["records"]), ("eval", epochs["val_records"])):
        for number, count in enumerate(seen or [0]):
            name = f"Trainer, split {split}, epoch {number + 1}"
            ledger.check(ledger.Entry(name, records[split], int(count), unread[split]))
    total, skipped = records["train"] + records["eval"], unread["train"] + unread["eval"]
    rate = sum(epochs["records"]) / sum(history["input"]["seconds"])
    resumes = [each["note"] for each in history["resumed"]]
    batches = _batches(history["batch"], history["devices"])
    notes = filter(None, [batches, *resumes, _warm_start(history["warm_start"])])
    facts = {"epochs": len(epochs["records"]), "samples_per_second": rate, "note": "; ".join(notes)}
    return Audit(ledger.Entry("Trainer", total, total - skipped, skipped), facts)


def _batches(batch: Mapping[str, Any], devices: Mapping[str, Any]) -> str:
    """Returns one line about the records per step and per update, and how many devices share them."""
    workers = f" of {devices['workers']} workers" if devices["workers"] > 1 else ""
    parts = [
        f"batches of {batch['size']:,}",
        "chosen from the data" if batch["chosen"] else "",
        f"{batch['replica']:,} on each of {devices['replicas']} devices{workers}" if devices["replicas"] > 1 else "",
        f"learning rate x {batch['scale']}" if batch["scale"] > 1 else "",
        f"{batch['effective']:,} records per update" if batch["accumulate"] > 1 else "",
    ]
    return ", ".join(filter(None, parts))


def _warm_start(done: Mapping[str, Any] | None) -> str:
    """Returns one line about the base model, and how many of its weights were used."""
    if done is None:
        return ""
    if not done["base"]:
        return "no base model yet: started from random weights"
    rows, of = (sum(column) for column in zip((0, 0), *done["mapped"].values(), strict=True))
    mapped = f"{len(done['mapped'])} mapped ({rows:,} of {of:,} rows)"
    return f"warm start from {done['base']}: weights {len(done['copied'])} copied, {mapped}, {len(done['fresh'])} fresh"


def _evaluator(inputs: Uris, outputs: Uris) -> Audit:
    from components.evaluation import results, thresholds

    result = results.read_result(str(outputs["evaluation"]), results.class_names(inputs["model"]))
    test = manifest.read(inputs["examples"]).records[thresholds.SPLIT]
    return Audit(ledger.Entry("Evaluator", test, int(result["metrics"]["examples"])), result)


def _pusher(inputs: Uris, outputs: Uris) -> Audit:
    del inputs
    return Audit(facts=orjson.loads((outputs["pushed_model"] / "pushed.json").read_bytes()))


# Splits whose records a node reads; empty: all.
_SPLITS_READ: Mapping[str, tuple[str, ...]] = {
    "Extract": (),
    "StatisticsGen": (),
    "Transform": (),  # fits on train; its audit counts the cut texts of all splits
    "Evaluator": ("test",),
}
_AUDITS: Mapping[str, Callable[[Uris, Uris], Audit]] = {
    "Ingest": _ingest,
    "Extract": _extract,
    "Gate": _gate,
    "Transform": _transform,
    "Trainer": _trainer,
    "Evaluator": _evaluator,
    "Pusher": _pusher,
}
