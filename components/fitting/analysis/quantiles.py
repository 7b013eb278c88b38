"""Quantile bucket edges that are bit-identical for any order of records, batch size and number of workers.

    float32 ─► uint32 key in the same order ─► count per key; with too many keys, their lowest bits are dropped

The number of dropped bits depends on all values together, not on the order in which they arrive: a subset never drops
more bits than the whole. Counts stay exact. Up to 16,384 distinct values per column give exact edges; with more,
neighbouring values share a key.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.fitting.analysis import trace
from components.fitting.analysis.trace import Arrays

_MAX_KEYS = 1 << 14  # distinct keys per column
_CHUNK = 1 << 16  # rows counted together, because sorting takes most of the time
_SIGN = np.uint32(1 << 31)
Keys = NDArray[np.uint32]


def fit(values: Any, width: int, buckets: int) -> Any:
    """Returns the edges between buckets, [width, buckets - 1], without non-finite values."""
    return trace.result(Quantiles(width, buckets), values)


@dataclass(frozen=True)
class Quantiles:
    """Edges of equally full buckets, for `width` columns."""

    width: int
    buckets: int

    def start(self) -> "ValueCounts":
        """Returns counts of nothing."""
        return ValueCounts(self.width, self.buckets)

    def constant(self, counted: "ValueCounts") -> NDArray[Any]:
        """Returns the edges."""
        return counted.result()

    def files(self, counted: "ValueCounts") -> dict[str, bytes]:
        """Returns no file."""
        del counted
        return {}


class ValueCounts:
    """Counts of each value, for every column."""

    def __init__(self, width: int, buckets: int) -> None:
        """Starts without values."""
        self._buckets = buckets
        self.columns = [KeyCounts() for _ in range(width)]
        self._pending: list[Any] = []

    def add(self, rows: Any) -> None:
        """Adds a matrix of float32."""
        self._pending.append(rows)
        if sum(map(len, self._pending)) >= _CHUNK:
            self.count_pending()

    def result(self) -> NDArray[np.float32]:
        """Returns the bucket edges of every column."""
        self.count_pending()
        return np.stack([column.edges(self._buckets) for column in self.columns])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns keys and counts of all columns, one column after another."""
        self.count_pending()
        return {
            "bits": np.array([column.bits for column in self.columns], np.int64),
            "sizes": np.array([len(column.keys) for column in self.columns], np.int64),
            "keys": np.concatenate([column.keys for column in self.columns]),
            "counts": np.concatenate([column.counts for column in self.columns]),
        }

    def load(self, arrays: Arrays) -> None:
        """Replaces keys and counts by what `arrays` returned."""
        ends = np.cumsum(arrays["sizes"])[:-1]
        split = (np.split(arrays[name], ends) for name in ("keys", "counts"))
        self._pending = []
        for column, bits, keys, counts in zip(self.columns, arrays["bits"].tolist(), *split, strict=True):
            column.bits, column.keys, column.counts = bits, keys, counts

    def merge(self, other: "ValueCounts") -> None:
        """Adds the counts of another worker."""
        other.count_pending()
        for ours, theirs in zip(self.columns, other.columns, strict=True):
            ours.add(theirs.keys, theirs.counts, theirs.bits)

    def count_pending(self) -> None:
        """Counts the rows that were added since the last call."""
        if not self._pending:
            return
        for column, values in zip(self.columns, np.concatenate(self._pending).T, strict=True):
            keys, counts = np.unique(_keys(values[np.isfinite(values)]), return_counts=True)
            column.add(keys, counts, 0)
        self._pending = []


class KeyCounts:
    """Counts of the values of one column, by their keys without the lowest `bits` bits."""

    def __init__(self) -> None:
        """Starts without values."""
        self.bits = 0
        self.keys: Keys = np.zeros(0, np.uint32)
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, keys: Keys, counts: NDArray[np.int64], bits: int) -> None:
        """Adds counts of keys whose lowest `bits` bits are dropped already."""
        most = max(self.bits, bits)
        both = np.concatenate([self.keys >> np.uint32(most - self.bits), keys >> np.uint32(most - bits)])
        self.bits, (self.keys, self.counts) = most, _summed(both, np.concatenate([self.counts, counts]))
        while len(self.keys) > _MAX_KEYS:
            self.bits, (self.keys, self.counts) = self.bits + 1, _summed(self.keys >> np.uint32(1), self.counts)

    def edges(self, buckets: int) -> NDArray[np.float32]:
        """Returns the lower edge of every bucket but the first; infinity if there are no values."""
        ends = np.cumsum(self.counts)
        if not len(ends):
            return np.full(buckets - 1, np.inf, np.float32)
        ranks = np.arange(1, buckets) * int(ends[-1]) // buckets
        return _values(self.keys[np.searchsorted(ends, ranks, side="right")] << np.uint32(self.bits))


def _summed(keys: Keys, counts: NDArray[np.int64]) -> tuple[Keys, NDArray[np.int64]]:
    unique, places = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(unique), np.int64)
    np.add.at(sums, places, counts)
    return unique, sums


def _keys(values: Any) -> Keys:
    """Returns integers that sort like the values."""
    bits = (values.astype(np.float32) + np.float32(0)).view(np.uint32)  # turns -0.0 into 0.0
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _values(keys: Keys) -> NDArray[np.float32]:
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).astype(np.uint32).view(np.float32)
