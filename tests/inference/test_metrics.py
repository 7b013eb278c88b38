"""Metrics from the sums of work units are those of scikit-learn over all records."""

import numpy as np
import pytest
from sklearn import metrics as sklearn

from components.inference import metrics
from components.inference.metrics import MetricSums

NONE, UNKNOWN = -2, -1


def test_classes() -> None:
    """Whatever the division into units; records without a label, or with an unknown one, take no part."""
    random = np.random.default_rng(3)
    outputs = random.dirichlet(np.ones(5), 400).astype(np.float32)
    labels = random.integers(-2, 4, 400)
    parts = []
    for start in range(0, 400, 90):
        parts.append(MetricSums())
        parts[-1].add_classes(labels[start : start + 90], outputs[start : start + 90])
    found = metrics.total(map(metrics.from_json, map(vars, parts)))
    known = labels >= 0
    truth, guess = labels[known], outputs[known].argmax(axis=1)

    assert (found.labelled, found.unknown) == (int(known.sum()), int((labels == UNKNOWN).sum()))
    assert metrics.metrics(found, tuple("abcde")) == pytest.approx(
        {
            "accuracy": sklearn.accuracy_score(truth, guess),
            "macro_f1": sklearn.f1_score(truth, guess, average="macro"),
            "log_loss": sklearn.log_loss(truth, outputs[known].astype(np.float64), labels=range(5)),
        },
        rel=1e-6,
    )


def test_quantities() -> None:
    """A quantity far from zero loses no digits."""
    random = np.random.default_rng(4)
    labels = 1e6 + random.normal(size=300)
    labels[::7] = np.nan
    values = (labels + random.normal(size=300)).astype(np.float64)
    parts = []
    for start in range(0, 300, 80):
        parts.append(MetricSums())
        parts[-1].add_quantities(labels[start : start + 80], values[start : start + 80])
    known = np.isfinite(labels)

    assert metrics.metrics(metrics.total(parts), ()) == pytest.approx(
        {
            "r2": sklearn.r2_score(labels[known], values[known]),
            "mae": sklearn.mean_absolute_error(labels[known], values[known]),
            "rmse": sklearn.mean_squared_error(labels[known], values[known]) ** 0.5,
        },
        rel=1e-9,
    )


def test_data_without_labels_has_no_metrics() -> None:
    """There is nothing to compare with."""
    sums = MetricSums()
    sums.add_classes(np.array([NONE, NONE]), np.eye(2, dtype=np.float32))

    assert metrics.metrics(sums, ("a", "b")) == {}
