"""Models are compared on the same records, those of the newest span apart."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.evaluation import by_span
from components.records.manifest import Manifest, Shard, SourceTotals

NUMBER = {"number": tf.io.FixedLenFeature([], tf.float32)}


class Constant(tf.Module):
    """Predicts the first class above a limit, and the second one below it; or the number itself."""

    def __init__(self, limit: float, classes: Sequence[str]) -> None:
        super().__init__()
        self._limit, self._classes = limit, list(classes)

    def serving_default(self, examples: Any) -> dict[str, Any]:
        """Returns what an exported model returns."""
        number = tf.io.parse_example(examples, NUMBER)["number"]
        if not self._classes:
            return {"value": number + self._limit}
        first = tf.cast(number > self._limit, tf.float32)
        names = tf.tile([self._classes], [tf.shape(number)[0], 1])
        return {"probabilities": tf.stack([first, 1 - first], axis=1), "all_classes": names}


def saved(folder: Path, limit: float, classes: Sequence[str] = ()) -> Path:
    """Saves such a model."""
    module = Constant(limit, classes)
    spec = tf.TensorSpec([None], tf.string, "examples")
    signature = tf.function(module.serving_default).get_concrete_function(examples=spec)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": signature})
    return folder


def examples(folder: Path, spans: dict[str, Sequence[tuple[float, Any]]]) -> Manifest:
    """Writes one shard of the test split per span, with pairs of number and label."""
    shards = []
    (folder / "Split-test").mkdir(parents=True)
    for span, pairs in spans.items():
        name = f"Split-test/data_tfrecord-{span}-00000-of-00001"
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for number, label in pairs:
                features = tf.train.Features()
                features.feature["number"].float_list.value.append(number)
                values = features.feature["label"]
                (values.bytes_list if isinstance(label, bytes) else values.float_list).value.append(label)
                writer.write(tf.train.Example(features=features).SerializeToString())
        shards.append(Shard("test", name, len(pairs), 0, ""))
    shards.append(Shard("train", f"Split-train/data_tfrecord-{span}-00000-of-00001", 1, 0, ""))  # is not opened
    return Manifest("", 0, SourceTotals(), tuple(shards), {}, 0, {}, 0, ())


def test_classes_are_compared_by_name(tmp_path: Path) -> None:
    """Models may number them in another order; one that does not know a class is wrong about it."""
    written = examples(tmp_path / "e", {"s1": [(1, b"low"), (3, b"high")], "s2": [(1, b"low"), (3, b"new")]})
    models = [saved(tmp_path / "a", 2, ["new", "low"]), saved(tmp_path / "b", 2, ["high", "low"])]

    newest, window = by_span.compare(models, tmp_path / "e", written, "test", "s2")

    assert (newest.metric, newest.records, newest.values) == ("accuracy", 2, (1.0, 0.5))
    assert (window.metric, window.records, window.values) == ("accuracy", 4, (0.75, 0.75))


def test_quantities_are_compared_by_r2(tmp_path: Path) -> None:
    """In each part of its own spread."""
    written = examples(tmp_path / "e", {"s1": [(0, 0.0), (4, 4.0)], "s2": [(1, 1.0), (3, 3.0)]})
    newest, window = by_span.compare([saved(tmp_path / "a", 1)], tmp_path / "e", written, "test", "s2")

    assert (newest.metric, newest.records, newest.values) == ("r2", 2, (0.0,))
    assert window.values[0] == pytest.approx(0.6)


def test_a_span_may_have_no_records_in_the_split(tmp_path: Path) -> None:
    """Its score is not defined."""
    written = examples(tmp_path / "e", {"s1": [(1, b"low")]})
    newest, window = by_span.compare([saved(tmp_path / "a", 2, ["high", "low"])], tmp_path / "e", written, "test", "s2")

    assert (newest.metric, newest.records, math.isnan(newest.values[0])) == ("accuracy", 0, True)
    assert window.values == (1.0,)


def test_rows_are_predicted_in_larger_batches_than_images() -> None:
    """By their stored bytes, within limits; a shard without bytes is no error."""
    shards = [Shard("test", "a", 1000, size * 1000, "") for size in (0, 100, 1024, 100_000)]

    assert [by_span._batch_size([shard]) for shard in shards] == [1024, 1024, 256, 64]


def test_two_models_are_paired_record_by_record(tmp_path: Path) -> None:
    """On the newest span alone; of classes: who is right, of quantities: squared errors."""
    classes: dict[str, Sequence[tuple[float, Any]]] = {
        "s1": [(1, b"low")] * 9,
        "s2": [(1, b"low"), (3, b"high"), (5, b"high")],
    }
    written = examples(tmp_path / "e", classes)
    found = by_span.pair(
        (saved(tmp_path / "a", 4, ["high", "low"]), saved(tmp_path / "b", 2, ["high", "low"])),
        tmp_path / "e", written, "test", "s2",
    )  # fmt: skip

    assert found.score == by_span.SpanScore("accuracy", 3, (2 / 3, 1.0))
    assert (found.paired.records, found.paired.difference, found.paired.squared_difference) == (3, 1, 1)

    written = examples(tmp_path / "q", {"s2": [(1, 1.0), (3, 3.0)]})
    found = by_span.pair((saved(tmp_path / "c", 1), saved(tmp_path / "d", 0)), tmp_path / "q", written, "test", "s2")

    assert found.score == by_span.SpanScore("r2", 2, (0.0, 1.0))
    assert (found.paired.difference, found.paired.baseline, found.paired.deviations) == (2, 0, 2)


def test_two_models_without_records(tmp_path: Path) -> None:
    """Nothing is paired."""
    written = examples(tmp_path / "e", {"s1": [(1, b"low")]})
    models = saved(tmp_path / "a", 4, ["high", "low"]), saved(tmp_path / "b", 2, ["high", "low"])

    assert by_span.pair(models, tmp_path / "e", written, "test", "s2").paired.records == 0
