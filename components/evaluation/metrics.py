"""Metrics that TFMA computes for us, and the trivial model that every model must beat.

    classes     confusion matrix, by score ─► accuracy, macro F1, accuracy of the trivial model, required accuracy, AUC
    quantities  sums of errors             ─► R², MAE, RMSE, RMSE of the trivial model, required R²

Records are counted once per model and slice (`extractors.py` prepares them); all metrics are derived from the counts.

The trivial model always answers the most frequent class of the train split, or the mean. ADR 22 explains the margin by
which a model must beat it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import tensorflow_model_analysis as tfma
from scipy import stats
from tensorflow_model_analysis.metrics import metric_util
from tensorflow_model_analysis.metrics.multi_class_confusion_matrix_metrics import Matrices, MatrixEntryKey

Matrix = Mapping[tuple[int, int], float]  # (true class, predicted class) -> records
Scores = Counter[tuple[int, int]]  # (true class, bucket of the score of class 1) -> records
Counts = Counter[tuple[int, int, int]]  # (true class, predicted class, bucket of the score of class 1) -> records
CONFIDENCE = 0.95
_BINARY = 2
_BUCKETS, _LEAST_PROBABILITY = 1000, 1e-45  # buckets per unit of the logit; the smallest float32 above 0
_NO_SCORE = -(1 << 62)  # the bucket of a record of more than two classes
_NOT_FINITE = -2  # the predicted class of probabilities that are not finite; -1 is a label that is no class
_WORST_R2 = -1e6  # JSON has no infinity
_TRIVIAL = 0  # classes are numbered by their frequency in the train split
_LEAST = 3  # records from which a correlation can be judged


def accuracy(matrix: Matrix) -> float:
    """Returns the fraction of records whose class was predicted."""
    return _sum(matrix, lambda true, predicted: true == predicted) / sum(matrix.values())


def macro_f1(matrix: Matrix) -> float:
    """Returns the mean of the F1 scores of all classes that are in the split or were predicted."""
    either: dict[int, float] = {}  # records of the class and predictions of it
    for pair, records in matrix.items():
        for each in pair:
            either[each] = either.get(each, 0.0) + records
    return sum(2 * matrix.get((each, each), 0.0) / total for each, total in either.items()) / len(either)


def trivial_accuracy(matrix: Matrix) -> float:
    """Returns the accuracy of always answering the most frequent class of the train split."""
    return _sum(matrix, lambda true, _: true == _TRIVIAL) / sum(matrix.values())


def required_accuracy(matrix: Matrix) -> float:
    """Returns the accuracy from which a model is better than the trivial one, by McNemar's test, one-sided at 95 %.

    Only records that exactly one of the two models gets right count; the 1 corrects for small numbers: even a model
    without mistakes needs five of them.
    """
    better = _sum(matrix, lambda true, predicted: true == predicted != _TRIVIAL)
    worse = _sum(matrix, lambda true, predicted: true == _TRIVIAL != predicted)
    margin = 1 + stats.norm.ppf(CONFIDENCE) * math.sqrt(better + worse)
    return trivial_accuracy(matrix) + float(margin) / sum(matrix.values())


def matrix_of(counts: Counts) -> Matrix:
    """Returns the confusion matrix."""
    matrix: Counter[tuple[int, int]] = Counter()
    for (true, predicted, _), records in counts.items():
        matrix[true, predicted] += records
    return matrix


def scores_of(counts: Counts) -> Scores:
    """Returns the records by their score; none if there are more than two classes."""
    scores: Scores = Counter()
    for (true, _, score), records in counts.items():
        if score != _NO_SCORE:
            scores[true, score] += records
    return scores


def auc(scores: Scores) -> float:
    """Returns the area under the ROC curve of two classes; NaN if there are more, or only one has records."""
    below = area = 0.0
    for bucket in sorted({bucket for _, bucket in scores}):
        negative, positive = scores[0, bucket], scores[1, bucket]
        area += positive * (below + negative / 2)
        below += negative
    pairs = below * (scores.total() - below)
    return area / pairs if pairs else math.nan


def bucket(negative: float, positive: float) -> int:
    """Returns the bucket of the logit of two probabilities: also those of a rare class, all near 0, stay apart."""
    odds = math.log(max(positive, _LEAST_PROBABILITY)) - math.log(max(negative, _LEAST_PROBABILITY))
    return round(_BUCKETS * odds)


@dataclass(frozen=True)
class Squares:
    """Number, mean and sum of squared deviations of labels, sums of squared and of absolute errors; can be merged.

    A prediction that is not finite has infinite errors, and is counted.
    """

    count: float = 0
    mean: float = 0.0
    deviations: float = 0.0
    errors: float = 0.0
    absolute: float = 0.0
    not_finite: float = 0

    def merged(self, other: "Squares") -> "Squares":
        """Returns the sums over both."""
        count = self.count + other.count
        if not count:
            return self
        apart = other.mean - self.mean
        return Squares(
            count,
            self.mean + apart * other.count / count,
            self.deviations + other.deviations + apart**2 * self.count * other.count / count,
            self.errors + other.errors,
            self.absolute + other.absolute,
            self.not_finite + other.not_finite,
        )


def r2(squares: Squares) -> float:
    """Returns the coefficient of determination: 1 without errors, 0 for always answering the mean, at least -1e6."""
    if not squares.deviations:  # equal labels: nothing to explain
        return _WORST_R2 if squares.errors else 0.0
    return max(1 - squares.errors / squares.deviations, _WORST_R2)


def trivial_rmse(squares: Squares) -> float:
    """Returns the root mean squared error of always answering the mean."""
    return math.sqrt(squares.deviations / squares.count)


def required_r2(squares: Squares) -> float:
    """Returns the R² from which a model is better than the mean: what chance reaches in 5 % of all cases.

    R² is never above the squared correlation, whose distribution for unrelated predictions is that of Student's t.
    """
    if squares.count < _LEAST:
        return 1.0
    freedom = squares.count - 2
    t = float(stats.t.ppf(CONFIDENCE, freedom))
    return t**2 / (freedom + t**2)


ABOVE_TRIVIAL = "above_trivial"
NOT_FINITE = "predictions_not_finite"  # number of records
OF_CLASSES: Mapping[str, Callable[[Counts], float]] = {
    "accuracy": lambda counts: accuracy(matrix_of(counts)),
    "macro_f1": lambda counts: macro_f1(matrix_of(counts)),
    "auc": lambda counts: auc(scores_of(counts)),
    "trivial_accuracy": lambda counts: trivial_accuracy(matrix_of(counts)),
    "required_accuracy": lambda counts: required_accuracy(matrix_of(counts)),
    ABOVE_TRIVIAL: lambda counts: accuracy(matrix_of(counts)) - required_accuracy(matrix_of(counts)),
    NOT_FINITE: lambda counts: _sum(matrix_of(counts), lambda _, predicted: predicted == _NOT_FINITE),
}
OF_QUANTITIES: Mapping[str, Callable[[Squares], float]] = {
    "r2": r2,
    "mean_absolute_error": lambda squares: squares.absolute / squares.count,
    "root_mean_squared_error": lambda squares: math.sqrt(squares.errors / squares.count),
    "trivial_rmse": trivial_rmse,
    "required_r2": required_r2,
    ABOVE_TRIVIAL: lambda squares: r2(squares) - required_r2(squares),
    NOT_FINITE: lambda squares: squares.not_finite,
}


class OfClasses(tfma.metrics.Metric):
    """A metric of OF_CLASSES."""

    def __init__(self, name: str) -> None:
        """Takes the name of the metric."""
        super().__init__(metric_util.merge_per_key_computations(_of_classes), name=name)


class ConfusionMatrix(tfma.metrics.Metric):
    """The confusion matrix, as the plot that TFMA's MultiClassConfusionMatrixPlot makes."""

    def __init__(self, name: str) -> None:
        """Takes the name of the plot."""
        super().__init__(metric_util.merge_per_key_computations(_confusion_matrix), name=name)


class OfQuantities(tfma.metrics.Metric):
    """A metric of OF_QUANTITIES."""

    def __init__(self, name: str) -> None:
        """Takes the name of the metric."""
        super().__init__(metric_util.merge_per_key_computations(_of_quantities), name=name)


def _of_classes(name: str, model_name: str = "") -> list[Any]:
    key = tfma.metrics.MetricKey(name, model_name=model_name)
    return _derived(key, _AddCounts(key._replace(name="_counts")), OF_CLASSES[name])


def _confusion_matrix(name: str, model_name: str = "") -> list[Any]:
    key = tfma.metrics.PlotKey(name, model_name=model_name)
    source = tfma.metrics.MetricKey("_counts", model_name=model_name)
    return _derived(key, _AddCounts(source), lambda counts: plot_of(matrix_of(counts)))


def _of_quantities(name: str, model_name: str = "") -> list[Any]:
    key = tfma.metrics.MetricKey(name, model_name=model_name)
    return _derived(key, _AddSquares(key._replace(name="_squares")), OF_QUANTITIES[name])


def _derived(key: Any, combiner: "_Add", compute: Callable[[Any], Any]) -> list[Any]:
    """Returns the sum over records, which TFMA computes once for all metrics that are derived from it, and a metric."""
    source = tfma.metrics.MetricComputation([combiner.key], None, combiner)
    derived = tfma.metrics.DerivedMetricComputation([key], lambda found: {key: compute(found[combiner.key])})
    return [source, derived]


def plot_of(matrix: Matrix) -> Any:
    """Returns a confusion matrix as TFMA's message."""
    entries = {MatrixEntryKey(*pair): float(records) for pair, records in matrix.items()}
    return Matrices({0.0: entries}).to_proto().multi_class_confusion_matrix_at_thresholds


class _Add(beam.CombineFn):
    """Adds up something over the records of a split or slice."""

    def __init__(self, key: Any) -> None:
        super().__init__()
        self.key = key

    def extract_output(self, total: Any) -> dict[Any, Any]:
        return {self.key: total}

    def _read(self, record: Any) -> tuple[Any, Any]:
        """Returns the label and the prediction of a record."""
        label, prediction, model = record.labels, record.predictions, self.key.model_name
        return (label[model], prediction[model]) if model else (label, prediction)


class _AddCounts(_Add):
    """Counts records by true class, predicted class (the first of equal probabilities) and score.

    Probabilities that are not finite are a wrong prediction without a score: their argmax would be the first NaN.
    """

    def create_accumulator(self) -> Counts:
        return Counter()

    def add_input(self, counts: Counts, record: Any) -> Counts:
        label, probabilities = self._read(record)
        predicted, score = _NOT_FINITE, _NO_SCORE
        if math.isfinite(probabilities.sum()):
            predicted = int(probabilities.argmax())
            score = bucket(*map(float, probabilities)) if probabilities.size == _BINARY else _NO_SCORE
        counts[int(label.item()), predicted, score] += 1
        return counts

    def merge_accumulators(self, accumulators: Iterable[Counts]) -> Counts:
        merged: Counts = Counter()
        for each in accumulators:
            merged.update(each)
        return merged


class _AddSquares(_Add):
    """Adds up the squares of labels, and errors."""

    def create_accumulator(self) -> Squares:
        return Squares()

    def add_input(self, sums: Squares, record: Any) -> Squares:
        label, prediction = (float(value.item()) for value in self._read(record))
        error = label - prediction
        if not math.isfinite(error):
            return sums.merged(Squares(1, label, 0.0, math.inf, math.inf, 1))
        return sums.merged(Squares(1, label, 0.0, error**2, abs(error)))

    def merge_accumulators(self, accumulators: Iterable[Squares]) -> Squares:
        merged = Squares()
        for each in accumulators:
            merged = merged.merged(each)
        return merged


def _sum(matrix: Matrix, counts: Callable[[int, int], bool]) -> float:
    return sum(records for pair, records in matrix.items() if counts(*pair))
