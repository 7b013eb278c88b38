"""Mean and variance that are bit-identical for any order of records, batch size and number of workers.

    x = … + a·2^24 + b + c·2^-24 + …      every part is an integer below 2^24; the same holds for x²

A sum of floats depends on the order of the additions, which Beam does not fix: the same data would be scaled slightly
differently in each run, and no seed could reproduce a model. Sums of integers are exact in any order.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.fitting.analysis import trace
from components.fitting.analysis.trace import Arrays

_BITS = 24  # the precision of float32; an int64 can sum 2^39 such parts
_CHUNK = 1 << 16  # values per step, so that they stay in the CPU cache
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def fit(values: Any, width: int) -> tuple[Any, Any]:
    """Returns mean and variance of each of `width` float32 columns, non-finite values excluded; NaN without values."""
    found = trace.result(Moments(width), values)
    return found[0], found[1]


@dataclass(frozen=True)
class Moments:
    """Mean and variance of `width` columns."""

    width: int

    def start(self) -> "Sums":
        """Returns sums of nothing."""
        return Sums(self.width)

    def constant(self, counted: "Sums") -> NDArray[Any]:
        """Returns the moments."""
        return counted.result()

    def files(self, counted: "Sums") -> dict[str, bytes]:
        """Returns no file."""
        del counted
        return {}


class Sums:
    """Count, exact sum and exact sum of squares of each column."""

    def __init__(self, width: int) -> None:
        """Starts at zero."""
        self.counts: Integers = np.zeros(width, np.int64)
        self.values: dict[int, Integers] = {}  # sums of parts, by their power of 2^24
        self.squares: dict[int, Integers] = {}

    def add(self, rows: Any) -> None:
        """Adds a matrix of float32."""
        matrix = rows.reshape([-1, len(self.counts)])
        step = max(1, _CHUNK // len(self.counts))
        for start in range(0, len(matrix), step):
            self._add(matrix[start : start + step].astype(np.float64))  # squares of float32 are exact in float64

    def _add(self, values: Floats) -> None:
        finite = np.isfinite(values)
        self.counts += finite.sum(axis=0)
        values = np.where(finite, values, 0.0)
        _merge(self.values, _parts(values))
        _merge(self.squares, _parts(values * values))

    def merge(self, other: "Sums") -> None:
        """Adds the sums of another worker."""
        self.counts += other.counts
        _merge(self.values, other.values)
        _merge(self.squares, other.squares)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns counts and sums as integers."""
        found = {"counts": self.counts}
        for name, sums in (("values", self.values), ("squares", self.squares)):
            places = sorted(sums)
            found[f"{name}_places"] = np.array(places, np.int64)
            found[name] = np.array([sums[place] for place in places], np.int64).reshape(-1, len(self.counts))
        return found

    def load(self, arrays: Arrays) -> None:
        """Replaces counts and sums by what `arrays` returned."""
        self.counts = arrays["counts"]
        self.values, self.squares = (
            dict(zip(arrays[f"{name}_places"].tolist(), arrays[name], strict=True)) for name in ("values", "squares")
        )

    def result(self) -> NDArray[np.float32]:
        """Returns a row of means and a row of variances, rounded once, at the end."""
        # The unit of the squares must be the square of the unit of the values.
        place = min([0, *self.values, *(each // 2 for each in self.squares)])
        totals = _total(self.values, place, len(self.counts))
        squares = _total(self.squares, 2 * place, len(self.counts))
        each = list(zip(self.counts.tolist(), totals, squares, strict=True))
        unit = place * _BITS
        means = [math.ldexp(total / n, unit) if n else math.nan for n, total, _ in each]
        variances = [
            math.ldexp((n * square - total * total) / (n * n), 2 * unit) if n else math.nan for n, total, square in each
        ]
        with np.errstate(over="ignore"):  # values beyond float32 become infinite
            return np.array([means, variances], np.float32)


def _parts(values: Floats) -> dict[int, Integers]:
    """Returns the sum of each part over all rows, by its power of 2^24; parts that are all zero may be absent."""
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
    """Returns the sums as Python integers, which do not overflow, in units of 2^(24 * place)."""
    total = np.zeros(width, object)
    for at, sums in parts.items():
        total += sums.astype(object) << (_BITS * (at - place))
    return total.tolist()
