"""What is read: shards of serialized records, and who reads which of them.

    shards ─► share of one worker: whole shards while there are enough of them, else every n-th record of each

A position is a place in the training stream: so many epochs are behind it, and so many batches of the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_UNEVEN = 1.1  # what a worker's share may exceed the mean by, while whole shards are dealt out


@dataclass(frozen=True)
class RecordFile:
    """A shard as the reader needs it."""

    path: Path
    records: int
    bytes: int

    @property
    def compression(self) -> str:
        """How TensorFlow calls it; told by the name alone, as ingest writes it."""
        return "GZIP" if self.path.suffix == ".gz" else ""


@dataclass(frozen=True)
class Part:
    """Every n-th record of a shard, from the first-th on."""

    file: RecordFile
    first: int = 0
    every: int = 1

    @property
    def records(self) -> int:
        """How many they are."""
        return max(0, -(-(self.file.records - self.first) // self.every))


@dataclass(frozen=True)
class Position:
    """How far training has come: whole epochs, and batches of the one that is going on."""

    epoch: int = 0
    step: int = 0

    def __post_init__(self) -> None:
        if self.epoch < 0 or self.step < 0:
            raise ValueError(f"position {self.epoch}, {self.step}: expected neither to be below 0")

    def after(self, steps: int, steps_per_epoch: int) -> "Position":
        """Returns the position so many batches later; an epoch that is full is over."""
        epochs, step = divmod(self.step + steps, steps_per_epoch)
        return Position(self.epoch + epochs, step)


@dataclass(frozen=True)
class Worker:
    """One of several that share the records."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"worker {self.index} of {self.count}: expected an index from 0 to {self.count - 1}")


def share(files: Sequence[RecordFile], worker: Worker) -> tuple[Part, ...]:
    """Returns what one worker reads; over all workers it is every record once."""
    filled = [file for file in files if file.records]
    by_file = _deal(filled, worker.count)
    mean = sum(file.records for file in filled) / worker.count
    if max(sum(file.records for file in files) for files in by_file) <= _UNEVEN * mean:
        return tuple(Part(file) for file in by_file[worker.index])
    # The first record goes to another worker in every shard: else the first worker would have more in the end.
    parts = [
        Part(file, (worker.index + number) % worker.count, worker.count) for number, file in enumerate(filled)
    ]  # fmt: skip
    return tuple(part for part in parts if part.records)


def _deal(files: Sequence[RecordFile], workers: int) -> list[list[RecordFile]]:
    """Deals shards out, the largest first, each to whom has least so far."""
    hands: list[list[RecordFile]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for file in sorted(files, key=lambda file: -file.records):  # of equal ones the first comes first
        poorest = loads.index(min(loads))
        hands[poorest].append(file)
        loads[poorest] += file.records
    return hands
