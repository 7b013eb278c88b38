"""Metrics of predictions with labels, from sums that work units report: nothing is read again.

unit ─► sums (pairs of label and predicted class, loss; errors of a quantity) ─┐
unit ─► sums ──────────────────────────────────────────────────────────────────┴─► added in order ─► metrics
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

_SMALLEST = 1e-7  # probability that is used in the logarithm, as Keras does
Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]


@dataclass
class MetricSums:
    """What the metrics of some records are computed from."""

    labelled: int = 0  # records with a label that the model knows
    unknown: int = 0  # records with another label
    pairs: dict[int, int] = field(default_factory=dict)  # label * classes + predicted class -> records
    loss: float = 0.0
    mean: float = 0.0  # of the labels that are quantities
    spread: float = 0.0  # sum of squared differences from the mean
    absolute: float = 0.0  # sum of absolute errors
    squared: float = 0.0  # sum of squared errors

    def add_classes(self, labels: Ints, probabilities: Floats) -> None:
        """Adds records with class numbers as labels; -1: unknown to the model, -2: none."""
        known = labels >= 0
        self.unknown += int((labels == -1).sum())
        if not known.any():
            return
        labels, probabilities = labels[known], probabilities[known]
        codes, counts = np.unique(labels * probabilities.shape[1] + probabilities.argmax(axis=1), return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            self.pairs[code] = self.pairs.get(code, 0) + count
        right = probabilities[np.arange(len(labels)), labels].astype(np.float64)
        self.loss -= float(np.log(np.clip(right, _SMALLEST, 1)).sum())
        self.labelled += len(labels)

    def add_quantities(self, labels: Floats, values: Floats) -> None:
        """Adds records with quantities as labels; nan: none."""
        known = np.isfinite(labels)
        if not known.any():
            return
        wanted, errors = labels[known].astype(np.float64), (values[known] - labels[known]).astype(np.float64)
        mean = float(wanted.mean())
        self._merge(len(wanted), mean, float(((wanted - mean) ** 2).sum()))
        self.absolute += float(np.abs(errors).sum())
        self.squared += float((errors**2).sum())

    def _merge(self, count: int, mean: float, spread: float) -> None:
        both, apart = self.labelled + count, mean - self.mean
        self.spread += spread + apart**2 * self.labelled * count / both
        self.mean += apart * count / both
        self.labelled = both

    def add(self, other: "MetricSums") -> None:
        """Adds the sums of other records."""
        for code, count in other.pairs.items():
            self.pairs[code] = self.pairs.get(code, 0) + count
        self.unknown += other.unknown
        self.loss, self.absolute = self.loss + other.loss, self.absolute + other.absolute
        self.squared += other.squared
        if other.labelled:
            self._merge(other.labelled, other.mean, other.spread)


def total(parts: Iterable[MetricSums]) -> MetricSums:
    """Returns the sums of all records; the order of the parts decides about the last digit."""
    whole = MetricSums()
    for part in parts:
        whole.add(part)
    return whole


def metrics(sums: MetricSums, classes: Sequence[str]) -> dict[str, float]:
    """Returns the metrics by name; none if no record has a label that the model knows."""
    if not sums.labelled:
        return {}
    return _of_classes(sums, len(classes)) if classes else _of_quantities(sums)


def _of_classes(sums: MetricSums, classes: int) -> dict[str, float]:
    labels, predicted, right = (np.zeros(classes, np.int64) for _ in range(3))
    for code, count in sums.pairs.items():
        label, guess = divmod(code, classes)
        labels[label] += count
        predicted[guess] += count
        right[label] += count if label == guess else 0
    seen = (labels + predicted) > 0  # a class that does not occur has no F1
    f1 = 2 * right[seen] / (labels[seen] + predicted[seen])
    return {
        "accuracy": float(right.sum() / sums.labelled),
        "macro_f1": float(f1.mean()),
        "log_loss": sums.loss / sums.labelled,
    }


def _of_quantities(sums: MetricSums) -> dict[str, float]:
    found = {"mae": sums.absolute / sums.labelled, "rmse": math.sqrt(sums.squared / sums.labelled)}
    return {"r2": 1 - sums.squared / sums.spread, **found} if sums.spread else found


def from_json(stored: Mapping[str, Any]) -> MetricSums:
    """Returns sums from their JSON form."""
    return MetricSums(**{**stored, "pairs": {int(code): count for code, count in stored["pairs"].items()}})
