"""Compares exported models on the same records of a split, those of the newest span apart from all of them.

    shards of the split, by span ─┬─► candidate ─┐
                                  └─► live model ┴─► accuracy or R² of each, on the newest span and on all spans

TFMA slices by what is in a record, and no record knows its span: its shard does, by its name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from components.evaluation import comparison
from components.evaluation.comparison import Paired
from components.records import manifest
from components.records.manifest import Manifest, Shard

_SIGNATURE = "serving_default"
_BATCH, _BATCH_BYTES = (64, 1024), 1 << 18  # records per batch: at least, at most; stored bytes, if that is in between
_KINDS = {"bytes_list": tf.string, "float_list": tf.float32, "int64_list": tf.int64}
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class SpanScore:
    """The metric of some models on the same records, in the order of the models."""

    metric: str  # accuracy or r2
    records: int
    values: tuple[float, ...]  # nan without records, or if quantities do not differ


@dataclass(frozen=True)
class SpanPair:
    """Two models on the same records."""

    score: SpanScore
    paired: Paired


def compare(
    models: Sequence[Path], examples: Path, written: Manifest, split: str, span: str
) -> tuple[SpanScore, SpanScore]:
    """Returns the scores of models on the records of one span, and on all records.

    Args:
        models: folders of exported models.
        examples: folder of the Examples artifact.
        written: its manifest.
        split: whose records are predicted.
        span: name of the span, as in the names of its shards.
    """
    shards = written.shards_of(split)
    of_span = [shard for shard in shards if manifest.span_of(shard.name) == span]
    others = [shard for shard in shards if manifest.span_of(shard.name) != span]
    newest, everything = [], []
    for model in models:
        found = _on(model, examples, (of_span, others), written.label)
        newest.append(found[0])
        everything.append(_joined(found))
    is_class = any(labels.dtype == object for labels, _ in everything)
    return _score(newest, is_class=is_class), _score(everything, is_class=is_class)


def pair(models: tuple[Path, Path], examples: Path, written: Manifest, split: str, span: str) -> SpanPair:
    """Returns two models on the records of one span, and record by record: the first as candidate.

    Args:
        models: folders of two exported models.
        examples: folder of the Examples artifact.
        written: its manifest.
        split: whose records are predicted.
        span: name of the span, as in the names of its shards.
    """
    shards = [shard for shard in written.shards_of(split) if manifest.span_of(shard.name) == span]
    found = [_on(model, examples, [shards], written.label)[0] for model in models]
    labels, candidate = found[0]
    is_class = labels.dtype == object
    return SpanPair(_score(found, is_class=is_class), _paired(labels, candidate, found[1][1], is_class=is_class))


def _on(model: Path, examples: Path, parts: Sequence[Sequence[Shard]], label: str) -> list[tuple[Values, Values]]:
    """Returns labels and predictions of a model on each of some lists of shards."""
    signature = (loaded := tf.saved_model.load(str(model))).signatures[_SIGNATURE]
    found = [_predicted(signature, examples, shards, label) for shards in parts]
    del loaded  # it held the variables of the signature
    return found


def _paired(labels: Values, candidate: Values, baseline: Values, *, is_class: bool) -> Paired:
    total = Paired()
    for label, one, other in zip(labels.tolist(), candidate.tolist(), baseline.tolist(), strict=True):
        total = total.added(
            comparison.of_class(candidate=one == label, baseline=other == label)
            if is_class
            else comparison.of_quantity(label, one, other)
        )
    return total


def accuracy(labels: Values, predicted: Values) -> float:
    """Returns the fraction of records whose class was predicted; a class that the model does not know is wrong."""
    return float((labels == predicted).mean()) if len(labels) else float("nan")


def r2(labels: Values, predicted: Values) -> float:
    """Returns R²; nan if the labels do not differ."""
    spread = float(((labels - labels.mean()) ** 2).sum()) if len(labels) else 0.0
    return 1 - float(((labels - predicted) ** 2).sum()) / spread if spread else float("nan")


def _score(found: Sequence[tuple[Values, Values]], *, is_class: bool) -> SpanScore:
    values = tuple((accuracy if is_class else r2)(labels, predicted) for labels, predicted in found)
    return SpanScore("accuracy" if is_class else "r2", len(found[0][0]), values)


def _joined(found: Sequence[tuple[Values, Values]]) -> tuple[Values, Values]:
    there = [each for each in found if len(each[0])]
    if not there:
        return np.zeros(0), np.zeros(0)
    labels, predicted = zip(*there, strict=True)
    return np.concatenate(labels), np.concatenate(predicted)


def _predicted(signature: Any, examples: Path, shards: Sequence[Shard], label: str) -> tuple[Values, Values]:
    """Returns labels and predictions of the records of some shards: names of classes, or quantities."""
    found = []
    for batch, spec in _batches(examples, shards, label):
        labels = tf.io.parse_example(batch, {label: spec})[label].numpy().reshape(-1)
        answer = signature(examples=batch)
        if "value" in answer:
            predicted = answer["value"].numpy().reshape(-1)
        else:
            predicted = answer["all_classes"][0].numpy()[answer["probabilities"].numpy().argmax(axis=1)]
        found.append((labels, predicted))
    return _joined(found)


def _batches(examples: Path, shards: Sequence[Shard], label: str) -> Iterator[tuple[Any, Any]]:
    """Yields batches of serialized records, with the type of their label."""
    files = [str(examples / shard.name) for shard in shards]
    if not files:
        return
    spec = None
    compression = "GZIP" if files[0].endswith(".gz") else ""
    for batch in tf.data.TFRecordDataset(files, compression).batch(_batch_size(shards)):
        if spec is None:
            stored = tf.train.Example.FromString(batch[0].numpy()).features.feature[label]
            spec = tf.io.FixedLenFeature([], _KINDS[stored.WhichOneof("kind")])
        yield batch, spec


def _batch_size(shards: Sequence[Shard]) -> int:
    """Returns how many records are predicted at once: rows are small, and images grow when they are decoded."""
    least, most = _BATCH
    records, stored = (sum(values) for values in zip(*((each.records, each.bytes) for each in shards), strict=True))
    return max(least, min(most, _BATCH_BYTES * records // max(1, stored)))
