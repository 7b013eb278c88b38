"""Edges of equally full buckets, the same to the last bit whatever the order, the batches and the number of workers.

    float32 ─► an integer of the same order ─► how often each was seen; if there are too many, without their last bits

How many bits go depends on all values together, not on who saw which of them first: a part of them never loses more
than all of them do. Counts stay exact. Up to 16,384 different values have exact edges; of more, neighbours are one.
"""

from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from numpy.typing import NDArray

_KEPT = 1 << 14  # integers of a column that are told apart
_WAITING = 1 << 16  # rows that are counted together: sorting is what takes time
_SIGN = np.uint32(1 << 31)
Keys = NDArray[np.uint32]


def fit(values: Any, width: int, buckets: int) -> Any:
    """Returns the edges between buckets, [width, buckets - 1]; what is not finite is not counted."""
    combine = beam.CombineGlobally(Combine(width, buckets))
    (found,) = tft.experimental.ptransform_analyzer([values], combine, [tf.float32], [[width, buckets - 1]])
    return found


class Combine(beam.CombineFn):
    """Batches of values, each alone in a tuple, to the edges of every column."""

    def __init__(self, width: int, buckets: int) -> None:
        """Takes matrices with `width` columns."""
        super().__init__()
        self._width, self._buckets = width, buckets

    def create_accumulator(self) -> "Counts":
        """Returns the counts of nothing."""
        return Counts(self._width)

    def add_input(self, counts: "Counts", batch: tuple[Any]) -> "Counts":
        """Adds a batch."""
        counts.add(batch[0])
        return counts

    def merge_accumulators(self, found: Any) -> "Counts":
        """Adds what several workers have counted."""
        first, *others = found
        for counts in others:
            first.merge(counts)
        return first

    def compact(self, counts: "Counts") -> "Counts":
        """Makes it small before it is sent."""
        counts.settle()
        return counts

    def extract_output(self, counts: "Counts") -> NDArray[np.float32]:
        """Returns the edges."""
        counts.settle()
        return np.stack([column.edges(self._buckets) for column in counts.columns])


class Counts:
    """How often each value was seen in each column."""

    def __init__(self, width: int) -> None:
        """Starts with none."""
        self.columns = [Column() for _ in range(width)]
        self._waiting: list[Any] = []

    def add(self, values: Any) -> None:
        """Adds rows of float32."""
        self._waiting.append(values)
        if sum(map(len, self._waiting)) >= _WAITING:
            self.settle()

    def merge(self, other: "Counts") -> None:
        """Adds what others have counted."""
        other.settle()
        for ours, theirs in zip(self.columns, other.columns, strict=True):
            ours.add(theirs.keys, theirs.counts, theirs.bits)

    def settle(self) -> None:
        """Counts what waits for it."""
        if not self._waiting:
            return
        for column, values in zip(self.columns, np.concatenate(self._waiting).T, strict=True):
            keys, counts = np.unique(_keys(values[np.isfinite(values)]), return_counts=True)
            column.add(keys, counts, 0)
        self._waiting = []


class Column:
    """How often each value was seen, by what is left of its key without its last bits."""

    def __init__(self) -> None:
        """Starts with none."""
        self.bits = 0
        self.keys: Keys = np.zeros(0, np.uint32)
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, keys: Keys, counts: NDArray[np.int64], bits: int) -> None:
        """Adds counts by keys that lack some bits."""
        wanted = max(self.bits, bits)
        both = np.concatenate([self.keys >> np.uint32(wanted - self.bits), keys >> np.uint32(wanted - bits)])
        self.bits, (self.keys, self.counts) = wanted, _summed(both, np.concatenate([self.counts, counts]))
        while len(self.keys) > _KEPT:
            self.bits, (self.keys, self.counts) = self.bits + 1, _summed(self.keys >> np.uint32(1), self.counts)

    def edges(self, buckets: int) -> NDArray[np.float32]:
        """Returns where every bucket but the first begins; nowhere, if there are no values."""
        ends = np.cumsum(self.counts)
        if not len(ends):
            return np.full(buckets - 1, np.inf, np.float32)
        ranks = np.arange(1, buckets) * int(ends[-1]) // buckets
        return _values(self.keys[np.searchsorted(ends, ranks, side="right")] << np.uint32(self.bits))


def _summed(keys: Keys, counts: NDArray[np.int64]) -> tuple[Keys, NDArray[np.int64]]:
    found, places = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, places, counts)
    return found, sums


def _keys(values: Any) -> Keys:
    """Returns integers in the order of the values."""
    bits = (values.astype(np.float32) + np.float32(0)).view(np.uint32)  # minus zero is zero
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _values(keys: Keys) -> NDArray[np.float32]:
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).astype(np.uint32).view(np.float32)
