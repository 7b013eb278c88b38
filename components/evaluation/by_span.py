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
    of_span = [f"/data_tfrecord-{span}-" in shard.name for shard in shards]
    newest, everything = [], []
    for model in models:
        signature = (loaded := tf.saved_model.load(str(model))).signatures[_SIGNATURE]
        found = [_predicted(signature, examples, shard, written.label) for shard in shards]
        newest.append(_joined([each for each, is_newest in zip(found, of_span, strict=True) if is_newest]))
        everything.append(_joined(found))
        del loaded  # it held the variables of the signature
    is_class = any(labels.dtype == object for labels, _ in everything)
    return _score(newest, is_class=is_class), _score(everything, is_class=is_class)


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
    if not found:
        return np.zeros(0), np.zeros(0)
    labels, predicted = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(predicted)


def _predicted(signature: Any, examples: Path, shard: Shard, label: str) -> tuple[Values, Values]:
    """Returns labels and predictions of the records of a shard: names of classes, or quantities."""
    labels, predicted = [], []
    for batch, spec in _batches(examples / shard.name, label, _batch_size(shard)):
        labels.append(tf.io.parse_example(batch, {label: spec})[label].numpy().reshape(-1))
        answer = signature(examples=batch)
        if "value" in answer:
            predicted.append(answer["value"].numpy().reshape(-1))
        else:
            classes = answer["all_classes"][0].numpy()
            predicted.append(classes[answer["probabilities"].numpy().argmax(axis=1)])
    return np.concatenate(labels), np.concatenate(predicted)


def _batch_size(shard: Shard) -> int:
    """Returns how many records are predicted at once: rows are small, and images grow when they are decoded."""
    least, most = _BATCH
    return max(least, min(most, _BATCH_BYTES * shard.records // max(1, shard.bytes)))


def _batches(shard: Path, label: str, size: int) -> Iterator[tuple[Any, Any]]:
    """Yields batches of serialized records, with the type of their label; a shard has at least one record."""
    spec = None
    for batch in tf.data.TFRecordDataset(str(shard), "GZIP" if shard.name.endswith(".gz") else "").batch(size):
        if spec is None:
            stored = tf.train.Example.FromString(batch[0].numpy()).features.feature[label]
            spec = tf.io.FixedLenFeature([], _KINDS[stored.WhichOneof("kind")])
        yield batch, spec
