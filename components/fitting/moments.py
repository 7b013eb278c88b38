"""Mean and variance to the last bit, whatever the order of records, the batches and the number of workers.

    x = … + a·2^24 + b + c·2^-24 + …      every part an integer below 2^24, and so are those of x²

A sum of floats depends on the order in which they are added, and Beam adds as it likes: the same data would be scaled
a little differently each time, and no seed would give the same model twice. Sums of integers are exact in any order.
"""

import math
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from numpy.typing import NDArray

_BITS = 24  # as many as a float32 has: 2^39 parts fit into an int64
_AT_ONCE = 1 << 16  # values that are cut into parts together, so that they stay in the processor's cache
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def fit(values: Any, width: int) -> tuple[Any, Any]:
    """Returns mean and variance of each of `width` columns of float32.

    What is not finite is not counted; where nothing is left both are NaN.
    """
    combine = beam.CombineGlobally(Combine(width))
    (found,) = tft.experimental.ptransform_analyzer([values], combine, [tf.float32], [[2, width]])
    return found[0], found[1]


class Combine(beam.CombineFn):
    """Batches of values, each alone in a tuple, to a matrix: a row of means, a row of variances."""

    def __init__(self, width: int) -> None:
        """Takes matrices with `width` columns."""
        super().__init__()
        self._width = width

    def create_accumulator(self) -> "Sums":
        """Returns the sums of nothing."""
        return Sums(self._width)

    def add_input(self, sums: "Sums", batch: tuple[Any]) -> "Sums":
        """Adds a batch."""
        for rows in _slices(batch[0].reshape([-1, self._width])):
            sums.add(rows.astype(np.float64))
        return sums

    def merge_accumulators(self, found: Any) -> "Sums":
        """Adds what several workers have summed."""
        first, *others = found
        for sums in others:
            first.merge(sums)
        return first

    def extract_output(self, sums: "Sums") -> NDArray[np.float32]:
        """Divides."""
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite
            return np.array(sums.moments(), np.float32)


def _slices(matrix: Any) -> Iterator[Any]:
    rows = max(1, _AT_ONCE // matrix.shape[1])
    for start in range(0, len(matrix), rows):
        yield matrix[start : start + rows]


class Sums:
    """How many values there are in each column, their sum and that of their squares."""

    def __init__(self, width: int) -> None:
        """Starts with none."""
        self.counts: Integers = np.zeros(width, np.int64)
        self.values: dict[int, Integers] = {}  # sums of parts, by the power of 2^24 in which they count
        self.squares: dict[int, Integers] = {}

    def add(self, values: Floats) -> None:
        """Adds rows of what were float32: their squares are exact in float64."""
        known = np.isfinite(values)
        self.counts += known.sum(axis=0)
        values = np.where(known, values, 0.0)
        _merge(self.values, _parts(values))
        _merge(self.squares, _parts(values * values))

    def merge(self, other: "Sums") -> None:
        """Adds what others have summed."""
        self.counts += other.counts
        _merge(self.values, other.values)
        _merge(self.squares, other.squares)

    def moments(self) -> tuple[list[float], list[float]]:
        """Returns means and variances, rounded once."""
        # The unit of squares must be the square of that of values.
        place = min([0, *self.values, *(each // 2 for each in self.squares)])
        totals = _total(self.values, place, len(self.counts))
        squares = _total(self.squares, 2 * place, len(self.counts))
        each = list(zip(self.counts.tolist(), totals, squares, strict=True))
        unit = place * _BITS
        means = [math.ldexp(total / n, unit) if n else math.nan for n, total, _ in each]
        variances = [
            math.ldexp((n * square - total * total) / (n * n), 2 * unit) if n else math.nan for n, total, square in each
        ]
        return means, variances


def _parts(values: Floats) -> dict[int, Integers]:
    """Returns the sum of each part over all rows, by the part's place; places with nothing in them may be left out."""
    found: dict[int, Integers] = {}
    place = (math.frexp(float(np.abs(values).max(initial=0.0)))[1] - 1) // _BITS
    while values.any():
        unit = math.ldexp(1.0, place * _BITS)
        parts = np.trunc(values / unit)
        found[place] = parts.sum(axis=0).astype(np.int64)
        values = values - parts * unit
        place -= 1
    return found


def _merge(into: dict[int, Integers], more: dict[int, Integers]) -> None:
    for place, sums in more.items():
        into[place] = into[place] + sums if place in into else sums


def _total(parts: dict[int, Integers], place: int, width: int) -> list[int]:
    """Returns the sums as Python's integers, which are as long as it takes, in units of a place."""
    total = np.zeros(width, object)
    for at, sums in parts.items():
        total += sums.astype(object) << (_BITS * (at - place))
    return total.tolist()
