"""Records on disk to batches on the device, read downward, one stage a line.

    shards (ordered by epoch) ─► interleave ─► shuffle (serialized) ─► parse, decode, augment ─► batch ─► prefetch

Shuffling holds serialized records, which are small, and is sized in megabytes. Batches are made here and nowhere else.
Order comes from (seed, epoch), augmentation from (seed, epoch, record): runs with one seed see the same batches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from components.settings import Input

Batch = tuple[dict[str, tf.Tensor], tf.Tensor]
_EPOCHS = 1_000_003  # more than anyone trains: epochs of one seed are never those of its neighbour
_PARALLEL_CALLS = 2  # fixed: on few cores it beats autotuning, which also grows its buffers


class Feature(Protocol):
    """A modality (see `components.features`)."""

    @staticmethod
    def spec() -> Any:
        """Returns how it stands in a record."""

    def decode(self, value: tf.Tensor) -> tf.Tensor:
        """Returns what the model sees."""

    def augment(self, value: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Returns a random variation of it."""

    def keras_input(self, name: str) -> Any:
        """Declares the model's input."""


@dataclass(frozen=True)
class RecordFile:
    """A shard as the reader needs it."""

    path: Path
    records: int
    bytes: int


@dataclass(frozen=True)
class Reader:
    """How the records of one task become batches."""

    features: Mapping[str, Feature]
    label: str
    label_number: Callable[[tf.Tensor], tf.Tensor]  # fitted by Transform
    settings: Input
    seed: int

    def training(self, shards: Sequence[RecordFile]) -> tf.data.Dataset:
        """Returns epoch after epoch without end, each in another order; `steps` of them make one epoch."""
        data = tf.data.Dataset.counter()
        data = data.flat_map(lambda epoch: self._training_epoch(shards, epoch))
        data = data.map(self._number_labels)
        return data.prefetch(self.settings.prefetch)

    def evaluation(self, shards: Sequence[RecordFile]) -> tf.data.Dataset:
        """Returns every record once, in stored order, unaltered."""
        data = tf.data.TFRecordDataset(_paths(shards))
        data = data.map(self._parse_and_decode, num_parallel_calls=_PARALLEL_CALLS)
        data = data.batch(self.settings.batch_size)
        data = data.map(self._number_labels)
        return data.prefetch(self.settings.prefetch)

    def steps(self, shards: Sequence[RecordFile]) -> int:
        """Returns how many batches hold every record once."""
        return -(-sum(shard.records for shard in shards) // self.settings.batch_size)

    def _training_epoch(self, shards: Sequence[RecordFile], epoch: tf.Tensor) -> tf.data.Dataset:
        seed = self.seed * _EPOCHS + epoch
        data = tf.data.Dataset.from_tensor_slices(_paths(shards))
        data = data.shuffle(len(shards), seed=seed, reshuffle_each_iteration=False)
        data = data.interleave(tf.data.TFRecordDataset, cycle_length=self.settings.interleave)
        data = data.shuffle(records_in(shards, self.settings.shuffle_mb), seed=seed, reshuffle_each_iteration=False)
        data = data.map(lambda record: self._parse_and_augment(record, epoch), num_parallel_calls=_PARALLEL_CALLS)
        return data.batch(self.settings.batch_size)

    def _parse(self, record: tf.Tensor) -> dict[str, tf.Tensor]:
        spec = {key: feature.spec() for key, feature in self.features.items()}
        spec[self.label] = tf.io.FixedLenFeature([], tf.string)
        spec["id"] = tf.io.FixedLenFeature([], tf.int64)
        parsed: dict[str, tf.Tensor] = tf.io.parse_single_example(record, spec)
        return parsed

    def _parse_and_decode(self, record: tf.Tensor) -> Batch:
        parsed = self._parse(record)
        return {key: feature.decode(parsed[key]) for key, feature in self.features.items()}, parsed[self.label]

    def _parse_and_augment(self, record: tf.Tensor, epoch: tf.Tensor) -> Batch:
        parsed = self._parse(record)
        seed = tf.stack([parsed["id"], self.seed * _EPOCHS + epoch])
        values = {key: feature.decode(parsed[key]) for key, feature in self.features.items()}
        if self.settings.augment:
            values = {key: self.features[key].augment(value, seed) for key, value in values.items()}
        return values, parsed[self.label]

    def _number_labels(self, values: dict[str, tf.Tensor], labels: tf.Tensor) -> Batch:
        numbers = self.label_number(labels)
        # The gate stops classes that Transform has not seen; if one comes this far, it must not become a number.
        known = tf.debugging.assert_non_negative(numbers, message="a label that the vocabulary does not hold")
        with tf.control_dependencies([known] if known is not None else []):
            return values, tf.identity(numbers)


def records_in(shards: Sequence[RecordFile], megabytes: int) -> int:
    """Returns how many records of the shards' mean size fit into `megabytes`."""
    records = sum(shard.records for shard in shards)
    size = sum(shard.bytes for shard in shards)
    return max(1, min(records, (megabytes << 20) * records // max(1, size)))


def _paths(shards: Sequence[RecordFile]) -> list[str]:
    return [str(shard.path) for shard in shards]
