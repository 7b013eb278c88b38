"""Counts the records of each node from its outputs: its entry in the ledger, and facts for the report.

The counts come from the outputs themselves (statistics, vocabulary, history, evaluation), not from the code that wrote
them. A node that drops a record, on any Beam runner, is detected before its output is published.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from tensorflow_metadata.proto.v0 import statistics_pb2

from components.records import ledger, manifest

Uris = Mapping[str, Path]  # the node's input or output artifacts by name


@dataclass(frozen=True)
class Audit:
    """What the outputs of one node say."""

    entry: ledger.Entry | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def audit(node: str, inputs: Uris, outputs: Uris) -> Audit:
    """Returns the counts of a node; raises LedgerMismatch if records were lost or added."""
    audited = _AUDITS[node](inputs, outputs) if node in _AUDITS else Audit()
    if audited.entry is not None:
        ledger.check(audited.entry)
    return audited


def _ingest(inputs: Uris, outputs: Uris) -> Audit:
    del inputs
    return Audit(manifest.read(outputs["examples"]).entry())


def _extract(inputs: Uris, outputs: Uris) -> Audit:
    read, written = (sum(manifest.read(uri).records.values()) for uri in (inputs["examples"], outputs["extracted"]))
    return Audit(ledger.Entry("Extract", read, written))


def _statistics(inputs: Uris, outputs: Uris) -> Audit:
    expected = manifest.read(inputs["examples"]).records
    counted = dict.fromkeys(expected, 0)
    for file in sorted(outputs["statistics"].glob("Split-*/FeatureStats.pb")):
        stats = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read_bytes())
        counted[file.parent.name.removeprefix("Split-")] = sum(dataset.num_examples for dataset in stats.datasets)
    for split, records in expected.items():
        ledger.check(ledger.Entry(f"StatisticsGen, split {split}", records, counted[split]))
    return Audit(ledger.Entry("StatisticsGen", sum(expected.values()), sum(counted.values())))


def _transform(inputs: Uris, outputs: Uris) -> Audit:
    import tensorflow_transform as tft

    from components.fitting import fitted

    train = manifest.read(inputs["examples"]).records["train"]
    output = tft.TFTransformOutput(str(outputs["transform_graph"]))
    facts = {"classes": fitted.class_names(output)}
    return Audit(ledger.Entry("Transform", train, sum(fitted.label_counts(output).values())), facts)


def _trainer(inputs: Uris, outputs: Uris) -> Audit:
    """Checks that every epoch read every record of the train and eval splits once."""
    history = orjson.loads((outputs["model_run"] / "history.json").read_bytes())
    records = manifest.read(inputs["examples"]).records
    epochs, unread = history["epochs"], history.get("unread", {"train": 0, "eval": 0})
    for split, seen in (("train", epochs["records"]), ("eval", epochs["val_records"])):
        for number, count in enumerate(seen or [0]):
            name = f"Trainer, split {split}, epoch {number + 1}"
            ledger.check(ledger.Entry(name, records[split], int(count), unread[split]))
    total, skipped = records["train"] + records["eval"], unread["train"] + unread["eval"]
    return Audit(ledger.Entry("Trainer", total, total - skipped, skipped), {"epochs": len(epochs["records"])})


def _evaluator(inputs: Uris, outputs: Uris) -> Audit:
    from components.evaluation import results, thresholds

    result = results.read_result(str(outputs["evaluation"]))
    test = manifest.read(inputs["examples"]).records[thresholds.SPLIT]
    return Audit(ledger.Entry("Evaluator", test, int(result["metrics"]["examples"])), result)


def _pusher(inputs: Uris, outputs: Uris) -> Audit:
    del inputs
    return Audit(facts=orjson.loads((outputs["pushed_model"] / "pushed.json").read_bytes()))


_AUDITS: Mapping[str, Callable[[Uris, Uris], Audit]] = {
    "Ingest": _ingest,
    "Extract": _extract,
    "StatisticsGen": _statistics,
    "Transform": _transform,
    "Trainer": _trainer,
    "Evaluator": _evaluator,
    "Pusher": _pusher,
}
