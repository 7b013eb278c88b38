"""Shards of serialized records, and the share of each worker.

    shards ─► one worker's share: whole shards if they divide evenly, else every n-th record of each shard

A Position is a place in the training data: a number of complete epochs, and of batches of the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from components.storage.location import Location

_UNEVEN = 1.1  # a worker's share may exceed the mean by this factor while whole shards are assigned


@dataclass(frozen=True)
class RecordFile:
    """One shard as the Reader needs it."""

    path: Location
    records: int
    bytes: int

    @property
    def compression(self) -> str:
        """TensorFlow's name of the compression; the file extension decides, as ingest writes it."""
        return "GZIP" if self.path.suffix == ".gz" else ""


@dataclass(frozen=True)
class ShardPart:
    """Every `every`-th record of a shard, starting at index `first`."""

    file: RecordFile
    first: int = 0
    every: int = 1

    @property
    def records(self) -> int:
        """Number of records in the part."""
        return max(0, -(-(self.file.records - self.first) // self.every))


@dataclass(frozen=True)
class Position:
    """Progress of a training: complete epochs, and batches of the current one."""

    epoch: int = 0
    step: int = 0

    def __post_init__(self) -> None:
        if self.epoch < 0 or self.step < 0:
            raise ValueError(f"position (epoch {self.epoch}, step {self.step}): expected 0 or more")

    def after(self, steps: int, steps_per_epoch: int) -> "Position":
        """Returns the position `steps` batches later; a complete epoch counts as an epoch."""
        epochs, step = divmod(self.step + steps, steps_per_epoch)
        return Position(self.epoch + epochs, step)


@dataclass(frozen=True)
class Worker:
    """One of several workers that share the records."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"worker {self.index} of {self.count}: expected an index from 0 to {self.count - 1}")


def share(files: Sequence[RecordFile], worker: Worker) -> tuple[ShardPart, ...]:
    """Returns what one worker reads; all workers together read every record once."""
    filled = [file for file in files if file.records]
    by_file = _assign(filled, worker.count)
    mean = sum(file.records for file in filled) / worker.count
    if max(sum(file.records for file in files) for files in by_file) <= _UNEVEN * mean:
        return tuple(ShardPart(file) for file in by_file[worker.index])
    # Each shard starts with another worker; otherwise worker 0 would get the most records.
    parts = [
        ShardPart(file, (worker.index + number) % worker.count, worker.count) for number, file in enumerate(filled)
    ]
    return tuple(part for part in parts if part.records)


def _assign(files: Sequence[RecordFile], workers: int) -> list[list[RecordFile]]:
    """Assigns shards to workers, the largest first, each to the worker with the fewest records."""
    assigned: list[list[RecordFile]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for file in sorted(files, key=lambda file: -file.records):  # stable: equal shards keep their order
        least = loads.index(min(loads))
        assigned[least].append(file)
        loads[least] += file.records
    return assigned
