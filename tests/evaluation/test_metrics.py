"""Metrics from counts and sums, against scikit-learn and against known distributions."""

import math
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
import pytest
import tensorflow_model_analysis as tfma
from scipy import stats
from sklearn import metrics as sklearn

from components.evaluation import metrics, results, thresholds
from components.evaluation.metrics import Squares
from components.records.roles import Layout
from components.settings.evaluate import Evaluate


def matrix(true: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64]) -> dict[tuple[int, int], float]:
    """Returns the confusion matrix as TFMA counts it."""
    pairs, counts = np.unique(np.stack([true, predicted]), axis=1, return_counts=True)
    return {(int(a), int(b)): float(count) for (a, b), count in zip(pairs.T, counts, strict=True)}


def passes(better: int, worse: int, both: int = 0) -> bool:
    """Whether a model passes that is right on `better` records more than the trivial model, and wrong on `worse`."""
    counted = {(1, 1): better, (0, 1): worse, (0, 0): both}
    return metrics.accuracy(counted) >= metrics.required_accuracy(counted)


def test_class_metrics_equal_those_of_scikit_learn() -> None:
    """One class is never predicted, one is not in the split."""
    random = np.random.default_rng(1)
    true, predicted = random.choice([0, 1, 2, 4], 500), random.choice([0, 1, 3, 4], 500)
    counted = matrix(true, predicted)

    assert metrics.accuracy(counted) == sklearn.accuracy_score(true, predicted)
    assert metrics.macro_f1(counted) == pytest.approx(
        sklearn.f1_score(true, predicted, average="macro", zero_division=0)
    )
    assert metrics.trivial_accuracy(counted) == np.mean(true == 0)


@pytest.mark.parametrize(("rare", "scale"), [(0.5, 1), (0.001, 1), (0.5, 15)], ids=["even", "rare", "overconfident"])
def test_the_auc_is_right_where_scores_crowd_at_0_or_1(rare: float, scale: float) -> None:
    """A rare class has probabilities near 0, an overconfident model has them near 0 and 1."""
    random = np.random.default_rng(1)
    true = (random.random(50_000) < rare).astype(int)
    logits = scale * (2 * random.normal(2 * true - 1, 1) + np.log(rare / (1 - rare)))
    scores = np.stack([1 / (1 + np.exp(logits)), 1 / (1 + np.exp(-logits))], axis=1).astype(np.float32)
    counted = Counter(
        (label, metrics.bucket(*pair)) for label, pair in zip(true.tolist(), scores.tolist(), strict=True)
    )

    assert metrics.auc(counted) == pytest.approx(sklearn.roc_auc_score(true, logits), abs=1e-5)


def analyzed(kind: Any, rows: pd.DataFrame, keras_metrics: Sequence[str]) -> dict[tuple[Any, ...], dict[str, float]]:
    """Returns our metrics and Keras' by slice, as TFMA computes them."""
    config = tfma.utils.update_eval_config_with_defaults(
        thresholds.eval_config(Layout("label", kind, ()), Evaluate()), has_baseline=False, rubber_stamp=True
    )
    config.model_specs[0].prediction_key = "prediction"
    config.slicing_specs.extend(tfma.SlicingSpec(feature_keys=[key]) for key in ("label", "place") if "place" in rows)
    for name in keras_metrics:
        config.metrics_specs[0].metrics.add(class_name=name, config=f'"name": "keras_{name}"')
    return {
        key: {name: value["doubleValue"] for name, value in found[""][""].items() if "doubleValue" in value}
        for key, found in tfma.analyze_raw_data(rows, config).slicing_metrics
    }


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 5])
def test_the_accuracy_is_that_of_keras(classes: int) -> None:
    """With ties, by class, and in slices of one record, to the last of Keras' 32 bits; the AUC is scikit-learn's."""
    random = np.random.default_rng(2)
    true = random.integers(0, classes, 300)
    scores = random.integers(0, 4, (300, classes)) + 2 * np.eye(classes)[true] + 1  # many equal maxima
    probabilities = (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)
    rows = pd.DataFrame({"label": true, "prediction": probabilities.tolist(), "place": [*range(9), *[9] * 291]})
    found = analyzed("class", rows, ["SparseCategoricalAccuracy"])
    predicted = probabilities.argmax(axis=1)
    by_class = results._by_class([[*pair, int(count)] for pair, count in matrix(true, predicted).items()], ())

    assert len(found) == 1 + classes + 10
    for values in found.values():
        assert np.float32(values["accuracy"]) == np.float32(values["keras_SparseCategoricalAccuracy"])
    assert found[()]["accuracy"] == np.mean(predicted == true)
    assert by_class == {str(each): found[("label", each),]["accuracy"] for each in range(classes)}
    if classes == 2:
        assert found[()]["auc"] == pytest.approx(sklearn.roc_auc_score(true, probabilities[:, 1]), abs=1e-4)


@pytest.mark.slow
def test_the_errors_are_those_of_keras() -> None:
    """Within the rounding of 32 bits, which Keras adds them up in."""
    random = np.random.default_rng(3)
    label = random.normal(5, 3, 300)
    rows = pd.DataFrame({"label": label, "prediction": label + random.normal(0, 1, 300)})
    values = analyzed("quantity", rows, ["MeanAbsoluteError", "RootMeanSquaredError"])[()]

    assert values["mean_absolute_error"] == pytest.approx(values["keras_MeanAbsoluteError"], rel=1e-6)
    assert values["root_mean_squared_error"] == pytest.approx(values["keras_RootMeanSquaredError"], rel=1e-6)


@pytest.mark.parametrize(
    ("better", "worse", "passed"),
    [(4, 0, False), (5, 0, True), (58, 42, False), (60, 40, True), (65, 40, True), (0, 0, False)],
)
def test_the_margin_is_that_of_mcnemars_test(better: int, worse: int, passed: bool) -> None:
    """As the exact binomial test decides, and whatever both models get right."""
    exact = stats.binomtest(better, better + worse, alternative="greater").pvalue if better + worse else 1.0

    assert passes(better, worse, both=1) == passes(better, worse, both=1000) == passed == (exact <= 0.05)


def test_chance_passes_in_at_most_5_percent() -> None:
    """A model that answers at random is blessed no more often than the confidence allows, in splits of any size."""
    random = np.random.default_rng(3)
    for size in (4, 10, 40, 200):
        better = random.binomial(size, 0.5, 4000)
        assert np.mean([passes(int(each), size - int(each)) for each in better]) <= 0.055


@pytest.mark.parametrize("pieces", [1, 7])
def test_regression_metrics_equal_those_of_scikit_learn(pieces: int) -> None:
    """However the records are divided among workers, and far from zero."""
    random = np.random.default_rng(4)
    label = random.normal(1e6, 3, 100)
    predicted = label + random.normal(0, 2, 100)
    sums = Squares()
    for part in np.array_split(np.arange(100), pieces):
        merged = Squares()
        for each in part:
            merged = merged.merged(Squares(1, label[each], 0.0, (label[each] - predicted[each]) ** 2))
        sums = sums.merged(merged)

    assert metrics.r2(sums) == pytest.approx(sklearn.r2_score(label, predicted))
    assert metrics.trivial_rmse(sums) == pytest.approx(np.std(label))


@pytest.mark.parametrize("size", [3, 10, 100])
def test_unrelated_predictions_reach_the_required_r2_in_at_most_5_percent(size: int) -> None:
    """Even if they are scaled as well as possible, which makes R² the squared correlation."""
    random = np.random.default_rng(5)
    label, predicted = random.normal(size=(2, 4000, size))
    correlation = [np.corrcoef(*pair)[0, 1] for pair in zip(label, predicted, strict=True)]
    required = metrics.required_r2(Squares(size, 0.0, 1.0, 0.0))

    assert np.mean([each > 0 and each**2 >= required for each in correlation]) == pytest.approx(0.05, abs=0.012)


def test_equal_labels_cannot_be_explained() -> None:
    """R² is 0, so no model passes."""
    squares = Squares(10, 3.0, 0.0, 0.0)

    assert metrics.OF_QUANTITIES["above_trivial"](squares) < 0
    assert not math.isnan(metrics.r2(squares))


def test_equal_labels_with_errors_do_not_reach_an_r2_of_0() -> None:
    """A threshold of 0 would else bless any model; JSON has no infinity."""
    assert metrics.r2(Squares(10, 3.0, 0.0, 0.1)) == -1e6


def added(combiner: Any, labels: Sequence[float], predictions: Sequence[Any]) -> Any:
    """Returns what a combiner adds up over records as TFMA passes them."""
    total = combiner.create_accumulator()
    for label, prediction in zip(labels, predictions, strict=True):
        record = SimpleNamespace(labels=np.array([label]), predictions=np.array(prediction, np.float32))
        total = combiner.add_input(total, record)
    return combiner.merge_accumulators([total, combiner.create_accumulator()])


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_that_are_not_finite_are_wrong_and_counted(classes: int, wrong: float) -> None:
    """Also for a label that is no class (-1); they have no score."""
    odd, right = [wrong] * classes, [0.0, 1.0, *[0.0] * (classes - 2)]
    key = tfma.metrics.MetricKey("_counts")
    counts = added(metrics._AddCounts(key), [0, 1, -1], [odd, right, odd])

    assert metrics.matrix_of(counts) == {(0, -2): 1, (1, 1): 1, (-1, -2): 1}
    assert metrics.scores_of(counts).total() == (classes == 2)
    assert metrics.OF_CLASSES["accuracy"](counts) == 1 / 3
    assert metrics.OF_CLASSES["predictions_not_finite"](counts) == 2


@pytest.mark.parametrize("wrong", [math.nan, -math.inf])
def test_quantities_that_are_not_finite_miss_every_threshold_and_are_counted(wrong: float) -> None:
    """R² stays a number, so that a later model can be compared with it."""
    squares = added(metrics._AddSquares(tfma.metrics.MetricKey("_squares")), [1, 2, 3], [[1], [wrong], [3]])

    assert squares == Squares(3, 2.0, 2.0, math.inf, math.inf, 1)
    assert (metrics.r2(squares), metrics.OF_QUANTITIES["predictions_not_finite"](squares)) == (-1e6, 1)
