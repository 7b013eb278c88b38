"""Reads the Evaluator's output: metrics, metric thresholds, slices and the confusion matrix as plain values."""

from typing import Any

import tensorflow_model_analysis as tfma

from components.evaluation.thresholds import ROUNDING

_ACCURACY, _EXPLAINED = "sparse_categorical_accuracy", "squared_pearson_correlation"
_NAMES = {_ACCURACY: "accuracy", _EXPLAINED: "explained"}
_COUNT = "example_count"


def read_result(evaluation: str) -> dict[str, Any]:
    """Returns the evaluation artifact's metrics, thresholds and confusion matrix as plain values."""
    result = tfma.load_eval_result(evaluation)
    names = [spec.name for spec in result.config.model_specs if not spec.is_baseline]
    if names[0]:  # TFMA names the models, and keys its plots by name, only when there are two of them
        result = tfma.load_eval_result(evaluation, model_name=names[0])
    (overall,) = [values for key, values in result.slicing_metrics if not key]
    metric = _ACCURACY if _ACCURACY in overall[""][""] else _EXPLAINED
    label = result.config.model_specs[0].label_key
    thresholds = _thresholds(overall[""][""], metric, result.config)
    validated = tfma.load_validation_result(evaluation)
    return {
        "metrics": {_NAMES[metric]: _value(overall, metric), **_errors(overall), "examples": _value(overall, _COUNT)},
        "by_class": {key[0][1]: _value(v, metric) for key, v in result.slicing_metrics if key and key[0][0] == label},
        "slices": [
            [str(key[0][0]), str(key[0][1]), _value(values, metric), int(_value(values, _COUNT))]
            for key, values in result.slicing_metrics
            if key and key[0][0] != label
        ],
        "confusion": _confusion(result.plots) if metric == _ACCURACY else [],
        "thresholds": thresholds,
        "failures": [
            f"{name} is {value:.4f}, expected {least}" for name, value, least, passed in thresholds if not passed
        ],
        # TFMA's verdict decides the blessing; its messages are shown if the thresholds above give no reason.
        "tfma_failures": [
            failure.message for each in validated.metric_validations_per_slice for failure in each.failures
        ],
    }


def _value(values: Any, metric: str) -> float:
    return float(values[""][""][metric]["doubleValue"])


def _errors(overall: Any) -> dict[str, float]:
    """Returns errors in the label's own unit, if the label is a quantity."""
    names = {"mean_absolute_error": "mae", "root_mean_squared_error": "rmse"}
    return {name: _value(overall, metric) for metric, name in names.items() if metric in overall[""][""]}


def _thresholds(values: Any, metric: str, config: tfma.EvalConfig) -> list[tuple[str, float, str, bool]]:
    """Returns (metric, value, threshold, passed) for each threshold that was applied."""
    name = _NAMES[metric]
    threshold = config.metrics_specs[0].metrics[0].per_slice_thresholds[0].threshold
    least = threshold.value_threshold.lower_bound.value + ROUNDING
    reached = float(values[metric]["doubleValue"])
    applied = [(name, reached, f"at least {least:g}", reached >= least - ROUNDING)]
    if f"{metric}_diff" in values:
        change = float(values[f"{metric}_diff"]["doubleValue"])
        allowed = threshold.change_threshold.absolute.value + ROUNDING
        passed = change >= allowed - ROUNDING
        applied.append((f"{name} change against the baseline", change, f"at least {allowed:+g}", passed))
    return applied


def _confusion(plots: Any) -> list[list[int]]:
    """Returns rows of [true class, predicted class, records]."""
    (overall,) = [values for key, values in plots if not key]
    (matrix,) = overall[""][""]["multiClassConfusionMatrixAtThresholds"]["matrices"]
    return [
        [entry.get("actualClassId", 0), entry.get("predictedClassId", 0), int(entry["numWeightedExamples"])]
        for entry in matrix["entries"]
    ]
