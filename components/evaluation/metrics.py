"""Metrics that TFMA computes for us, and the trivial model that every model must beat.

    classes     TFMA's confusion matrix ─► accuracy, macro F1, accuracy of the trivial model, required accuracy
    two classes histogram of logits     ─► AUC
    quantities  sums of squares         ─► R², RMSE of the trivial model, required R²

The trivial model always answers the most frequent class of the train split, or the mean. ADR 22 explains the margin by
which a model must beat it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import apache_beam as beam
import tensorflow_model_analysis as tfma
from scipy import stats
from tensorflow_model_analysis.metrics import metric_util
from tensorflow_model_analysis.metrics.multi_class_confusion_matrix_metrics import multi_class_confusion_matrices

Matrix = Mapping[tuple[int, int], float]  # (true class, predicted class) -> records
Scores = Counter[tuple[int, int]]  # (true class, bucket of the score of class 1) -> records
CONFIDENCE = 0.95
_BINARY = 2
_BUCKETS, _LEAST_PROBABILITY = 1000, 1e-45  # buckets per unit of the logit; the smallest float32 above 0
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


class Squares:
    """Number, mean and sum of squared deviations of labels, and the sum of squared errors; can be merged."""

    def __init__(self, count: float = 0, mean: float = 0.0, deviations: float = 0.0, errors: float = 0.0) -> None:
        """Starts without records."""
        self.count, self.mean, self.deviations, self.errors = count, mean, deviations, errors

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
        )


def r2(squares: Squares) -> float:
    """Returns the coefficient of determination: 1 without errors, 0 for always answering the mean."""
    return 1 - squares.errors / squares.deviations if squares.deviations else 0.0  # equal labels: nothing to explain


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
OF_CLASSES: Mapping[str, Callable[[Matrix], float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "trivial_accuracy": trivial_accuracy,
    "required_accuracy": required_accuracy,
    ABOVE_TRIVIAL: lambda matrix: accuracy(matrix) - required_accuracy(matrix),
}
OF_QUANTITIES: Mapping[str, Callable[[Squares], float]] = {
    "r2": r2,
    "trivial_rmse": trivial_rmse,
    "required_r2": required_r2,
    ABOVE_TRIVIAL: lambda squares: r2(squares) - required_r2(squares),
}


class OfClasses(tfma.metrics.Metric):
    """A metric of OF_CLASSES, from the confusion matrix that TFMA computes once."""

    def __init__(self, name: str) -> None:
        """Takes the name of the metric."""
        super().__init__(metric_util.merge_per_key_computations(_of_classes), name=name)


class OfQuantities(tfma.metrics.Metric):
    """A metric of OF_QUANTITIES, from sums that TFMA computes once."""

    def __init__(self, name: str) -> None:
        """Takes the name of the metric."""
        super().__init__(metric_util.merge_per_key_computations(_of_quantities), name=name)


class OfTwoClasses(tfma.metrics.Metric):
    """The AUC. TFMA's own adds about half to the time of an evaluation, and cannot be limited to two classes."""

    def __init__(self, name: str) -> None:
        """Takes the name of the metric."""
        super().__init__(metric_util.merge_per_key_computations(_of_two_classes), name=name)


def _of_classes(name: str, eval_config: Any = None, model_name: str = "", output_name: str = "") -> list[Any]:
    matrices = multi_class_confusion_matrices([0.0], eval_config=eval_config, model_name=model_name)
    source, compute = matrices[-1].keys[-1], OF_CLASSES[name]
    key = tfma.metrics.MetricKey(name, model_name=model_name, output_name=output_name)
    return [*matrices, _derived(key, lambda found: compute(found[source][0.0]))]


def _of_two_classes(name: str, eval_config: Any = None, model_name: str = "", output_name: str = "") -> list[Any]:
    source = tfma.metrics.MetricKey("_scores", model_name=model_name, output_name=output_name)
    scores = tfma.metrics.MetricComputation([source], None, _AddScores(source, eval_config))
    return [scores, _derived(source._replace(name=name), lambda found: auc(found[source]))]


def _of_quantities(name: str, eval_config: Any = None, model_name: str = "", output_name: str = "") -> list[Any]:
    source = tfma.metrics.MetricKey("_squares", model_name=model_name, output_name=output_name)
    sums = tfma.metrics.MetricComputation([source], None, _AddSquares(source, eval_config))
    key, compute = source._replace(name=name), OF_QUANTITIES[name]
    return [sums, _derived(key, lambda found: compute(found[source]))]


def _derived(key: Any, compute: Callable[[Any], float]) -> Any:
    return tfma.metrics.DerivedMetricComputation([key], lambda found: {key: compute(found)})


class _Add(beam.CombineFn):
    """Adds up something over the records of a split or slice."""

    def __init__(self, key: Any, eval_config: Any) -> None:
        super().__init__()
        self._key, self._config = key, eval_config

    def extract_output(self, total: Any) -> dict[Any, Any]:
        return {self._key: total}

    def _read(self, record: Any) -> tuple[Any, Any]:
        """Returns the label and the prediction of a record."""
        label, prediction, _ = next(
            metric_util.to_label_prediction_example_weight(
                record,
                eval_config=self._config,
                model_name=self._key.model_name,
                output_name=self._key.output_name,
                flatten=False,
            )
        )
        return label, prediction


class _AddScores(_Add):
    """Counts the records of two classes by their probability; counts nothing if there are more classes."""

    def create_accumulator(self) -> Scores:
        return Counter()

    def add_input(self, scores: Scores, record: Any) -> Scores:
        label, probabilities = self._read(record)
        if probabilities.size == _BINARY:
            scores[int(label.item()), bucket(*map(float, probabilities))] += 1
        return scores

    def merge_accumulators(self, accumulators: Iterable[Scores]) -> Scores:
        merged: Scores = Counter()
        for each in accumulators:
            merged.update(each)
        return merged


class _AddSquares(_Add):
    """Adds up the squares of labels and errors."""

    def create_accumulator(self) -> Squares:
        return Squares()

    def add_input(self, sums: Squares, record: Any) -> Squares:
        label, prediction = (float(value.item()) for value in self._read(record))
        return sums.merged(Squares(1, label, 0.0, (label - prediction) ** 2))

    def merge_accumulators(self, accumulators: Iterable[Squares]) -> Squares:
        merged = Squares()
        for each in accumulators:
            merged = merged.merged(each)
        return merged


def _sum(matrix: Matrix, counts: Callable[[int, int], bool]) -> float:
    return sum(records for pair, records in matrix.items() if counts(*pair))
