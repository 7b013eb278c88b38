"""Compares the candidate with the baseline model on the same records, overall and per slice.

    each record ─► both models ─► Paired: who is right, or the squared errors ─► change ≥ -allowed drop?

The allowed drop is what the settings allow, or what chance explains on the records of the slice, whichever is larger.
Of R², chance explains at most five times what the settings allow, and nothing on fewer than eight records.
ADR 51 explains the rule.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import tensorflow_model_analysis as tfma
from scipy import stats

CHANGE, ALLOWED = "change", "allowed_drop"
_WORST = 1e6  # JSON has no infinity
LEAST_RECORDS = 8  # fewer squared errors say nothing about their distribution
MOST_CHANCE = 5.0  # times what is set: one wild record makes the spread of squared errors as large as it likes


@dataclass(frozen=True)
class Paired:
    """Sums over the records of a slice; can be added. Of a classification, an error is 0 or 1."""

    records: int = 0
    baseline: float = 0.0  # squared errors of the baseline model
    difference: float = 0.0  # of squared errors: candidate - baseline
    squared_difference: float = 0.0
    mean: float = 0.0  # of the labels
    deviations: float = 0.0  # squared deviations of the labels
    candidate_broken: int = 0  # predictions that are not finite
    baseline_broken: int = 0

    def added(self, other: "Paired") -> "Paired":
        """Returns the sums over both."""
        records = self.records + other.records
        if not records:
            return self
        apart = other.mean - self.mean
        return Paired(
            records,
            self.baseline + other.baseline,
            self.difference + other.difference,
            self.squared_difference + other.squared_difference,
            self.mean + apart * other.records / records,
            self.deviations + other.deviations + apart**2 * self.records * other.records / records,
            self.candidate_broken + other.candidate_broken,
            self.baseline_broken + other.baseline_broken,
        )


def of_class(*, candidate: bool, baseline: bool) -> Paired:
    """Returns one record of a classification, and which of the models get it right."""
    difference = float(baseline) - float(candidate)
    return Paired(1, float(not baseline), difference, difference**2)


def of_quantity(label: float, candidate: float, baseline: float) -> Paired:
    """Returns one record of a regression."""
    errors = (candidate - label) ** 2, (baseline - label) ** 2
    if not all(map(math.isfinite, errors)):
        return Paired(
            1, mean=label, candidate_broken=not math.isfinite(errors[0]), baseline_broken=not math.isfinite(errors[1])
        )
    difference = errors[0] - errors[1]
    return Paired(1, errors[1], difference, difference**2, label)


def change(kind: str, paired: Paired) -> float:
    """Returns the candidate's accuracy, or R², minus that of the baseline model."""
    if broken := paired.candidate_broken - paired.baseline_broken:
        return -_WORST if broken > 0 else _WORST
    return max(-_WORST, min(_WORST, -paired.difference / _scale(kind, paired)))


def allowed_drop(kind: str, paired: Paired, max_drop: float, confidence: float) -> float:
    """Returns by how much the candidate may be worse: what is set, or what chance explains, whichever is larger.

    Args:
        kind: of the label: class or quantity.
        paired: the sums of the slice.
        max_drop: what is allowed however many records there are.
        confidence: one-sided, of McNemar's test, or of Student's test of the paired squared errors.
    """
    if paired.candidate_broken != paired.baseline_broken:
        return max_drop
    if kind == "class":  # squared_difference: the records that exactly one of the two models gets right
        chance = (1 + float(stats.norm.ppf(confidence)) * math.sqrt(paired.squared_difference)) / paired.records
        return max(max_drop, chance)
    if paired.records < LEAST_RECORDS:
        return max_drop
    spread = max(0.0, paired.squared_difference - paired.difference**2 / paired.records)
    t = float(stats.t.ppf(confidence, paired.records - 1))
    chance = t * math.sqrt(spread * paired.records / (paired.records - 1)) / _scale(kind, paired)
    return max(max_drop, min(chance, MOST_CHANCE * max_drop))


def _scale(kind: str, paired: Paired) -> float:
    """Returns what a sum of squared errors is divided by: the records, or the deviations of the labels, as in R²."""
    if kind == "class":
        return paired.records
    # Equal labels have no R²: then the errors are relative to those of the baseline model.
    return paired.deviations or paired.baseline or 1.0


class AgainstBaseline(tfma.metrics.Metric):
    """How far the candidate is above the lowest metric that it may have; nothing without a baseline model."""

    def __init__(self, name: str, kind: str, max_drop: float, confidence: float) -> None:
        """Takes the name of the metric, the kind of the label, and the limits of `allowed_drop`."""
        super().__init__(_computations, name=name, kind=kind, max_drop=max_drop, confidence=confidence)


def _computations(
    name: str, kind: str, max_drop: float, confidence: float, eval_config: tfma.EvalConfig, model_names: list[str]
) -> list[Any]:
    baselines = {spec.name for spec in eval_config.model_specs if spec.is_baseline}
    candidates = [each for each in model_names if each not in baselines]
    if not baselines or not candidates:
        return []
    (baseline,), candidate = baselines, candidates[0]
    source = _AddPairs(tfma.metrics.MetricKey("_paired", model_name=candidate), kind, baseline)
    # TFMA compares only metrics of which it knows that they are differences.
    verdict = tfma.metrics.MetricKey(name, model_name=candidate, is_diff=True)
    keys = [tfma.metrics.MetricKey(f"{name}_{each}", model_name=candidate) for each in (CHANGE, ALLOWED)]

    def compute(found: Any) -> dict[Any, float]:
        paired = found[source.key]
        reached, allowed = change(kind, paired), allowed_drop(kind, paired, max_drop, confidence)
        return {verdict: reached + allowed, keys[0]: reached, keys[1]: allowed}

    return [
        tfma.metrics.MetricComputation([source.key], None, source),
        tfma.metrics.DerivedMetricComputation([verdict, *keys], compute),
    ]


class _AddPairs(beam.CombineFn):
    """Adds up records that both models predicted."""

    def __init__(self, key: Any, kind: str, baseline: str) -> None:
        super().__init__()
        self.key, self._kind, self._baseline = key, kind, baseline

    def create_accumulator(self) -> Paired:
        return Paired()

    def add_input(self, sums: Paired, record: Any) -> Paired:
        return sums.added(of_record(self._kind, record, self.key.model_name, self._baseline))

    def merge_accumulators(self, accumulators: Iterable[Paired]) -> Paired:
        merged = Paired()
        for each in accumulators:
            merged = merged.added(each)
        return merged

    def extract_output(self, total: Paired) -> dict[Any, Paired]:
        return {self.key: total}


def of_record(kind: str, record: Any, candidate: str, baseline: str) -> Paired:
    """Returns one record that both models predicted; each has its own numbers of the classes."""
    labels, predictions = record.labels, record.predictions
    if kind == "class":
        right = {each: int(labels[each].item()) == _answer(predictions[each]) for each in (candidate, baseline)}
        return of_class(candidate=right[candidate], baseline=right[baseline])
    label = float(labels[candidate].item())
    return of_quantity(label, *(float(predictions[each].item()) for each in (candidate, baseline)))


def _answer(probabilities: Any) -> int:
    """Returns the predicted class; none of them if a probability is not finite."""
    return int(probabilities.argmax()) if math.isfinite(probabilities.sum()) else -2
