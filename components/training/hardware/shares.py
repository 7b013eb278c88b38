"""The records of workers and replicas: every record is read once per epoch, by one of the workers.

    batch of all ─► workers: equal parts ─► replicas: slices of their worker's batch

A worker that has read all of its records before the others goes on with one that does not count until the epoch ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from components.errors import BadInput, SettingsError
from components.input_pipeline import Position, Reader, RecordFile, Worker
from components.input_pipeline.stages import Records


@dataclass(frozen=True)
class Batch:
    """How the records of a batch are divided."""

    size: int  # records, over all workers
    workers: int
    replicas: int  # over all workers
    scale: int  # of batch and learning rate

    @property
    def worker(self) -> int:
        """Records per worker."""
        return self.size // self.workers

    @property
    def replica(self) -> int:
        """Records of the replica with the most."""
        return -(-self.size // self.replicas)

    def to_dict(self) -> dict[str, int]:
        """Returns what the history says about it."""
        return {"size": self.size, "replica": self.replica, "scale": self.scale}


@dataclass(frozen=True)
class Shares:
    """What this worker reads, and how much it is."""

    worker: Worker
    replicas: int  # over all workers; with several, each element is a batch and the number of its records that count

    def batch(self, size: int, *, scaled: bool, chosen: bool = False) -> Batch:
        """Returns how a batch is divided among workers and replicas; one that was chosen is made large enough."""
        scale = self.replicas if scaled else 1
        if chosen:
            size = max(-(-size // self.worker.count) * self.worker.count, self.replicas)
        batch = Batch(size * scale, self.worker.count, self.replicas, scale)
        if batch.size % batch.workers or batch.size < batch.replicas:
            raise SettingsError(
                f"input.batch_size is {size}, for {batch.workers} workers with {batch.replicas} devices; expected a "
                "multiple of the number of workers, and at least one record per device"
            )
        return batch

    def records(self, reader: Reader, records: Sequence[RecordFile]) -> int:
        """Returns the number of records that an epoch reads: all, unless partial batches are dropped."""
        if reader.settings.last_batch == "keep":
            return sum(file.records for file in records)
        return sum(reader.steps(records, worker) * reader.settings.batch_size for worker in self._workers())

    def steps(self, reader: Reader, records: Records) -> int:
        """Returns the number of steps per epoch: those of the worker with the most records."""
        return self._most(lambda worker: reader.steps(records, worker))

    def evaluation_steps(self, reader: Reader, records: Records) -> int:
        """Returns the number of steps of an evaluation."""
        return self._most(lambda worker: reader.evaluation_steps(records, worker))

    def training(self, reader: Reader, records: Records, start: Position) -> tf.data.Dataset:
        """Returns this worker's batches from a position on; it waits for others at the end of every epoch."""
        if self.replicas == 1:
            return reader.training(records, start)
        own, steps = reader.steps(records, self.worker), self.steps(reader, records)
        first = min(start.step, own - 1)
        data = _numbered(reader.training(records, Position(start.epoch, first), self.worker))
        if own == steps:
            return data

        def followed(number: tf.Tensor, element: Any) -> tf.data.Dataset:
            alone = tf.data.Dataset.from_tensors(element)
            is_last = tf.equal((first + number) % own, own - 1)
            return alone.concatenate(_uncounted(alone).repeat(tf.cast(tf.where(is_last, steps - own, 0), tf.int64)))

        return data.enumerate().flat_map(followed).skip(start.step - first)

    def evaluation(self, reader: Reader, records: Records) -> tf.data.Dataset:
        """Returns this worker's batches of an evaluation."""
        if self.replicas == 1:
            return reader.evaluation(records)
        waiting = self.evaluation_steps(reader, records) - reader.evaluation_steps(records, self.worker)
        data = _numbered(reader.evaluation(records, self.worker))
        return data.concatenate(_uncounted(data.take(1)).repeat(waiting)) if waiting else data

    def _most(self, steps: Callable[[Worker], int]) -> int:
        found = [steps(worker) for worker in self._workers()]
        if len(found) > 1 and not all(found):
            raise BadInput(
                f"{found.count(0)} of {len(found)} workers get no batch; expected at least one per worker, in the "
                "train and in the eval split: start fewer workers, or add records"
            )
        return max(found)

    def _workers(self) -> list[Worker]:
        return [Worker(index, self.worker.count) for index in range(self.worker.count)]


def rows_of(batch: Any) -> tf.Tensor:
    """Returns the number of records in a batch."""
    return tf.shape(batch[1], out_type=tf.int64)[0]


def _numbered(data: tf.data.Dataset) -> tf.data.Dataset:
    """Returns batches, each with the number of its records that count."""
    return data.map(lambda *batch: (batch, rows_of(batch)))


def _uncounted(data: tf.data.Dataset) -> tf.data.Dataset:
    """Returns one record of each batch, which does not count."""
    none = tf.constant(0, tf.int64)
    return data.map(lambda batch, _: (tf.nest.map_structure(lambda values: values[:1], batch), none))
