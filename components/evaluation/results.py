"""Reads the Evaluator's output: metrics, metric thresholds, slices and the confusion matrix as plain values."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import tensorflow_model_analysis as tfma

from components.evaluation.comparison import ALLOWED, CHANGE, LEAST_RECORDS, MOST_CHANCE
from components.evaluation.metrics import ABOVE_TRIVIAL, NOT_FINITE
from components.evaluation.thresholds import COMPARED, COMPARED_SLICES, ROUNDING
from components.fitting import escaping
from components.pretrained.artifacts import LABELS, SERVING
from components.storage.location import Location

_COUNT = "example_count"
# By the metric that decides: what is shown, by TFMA's names.
_SHOWN = {
    "accuracy": {name: name for name in ("accuracy", "macro_f1", "auc", "trivial_accuracy")},  # AUC: two classes
    "r2": {
        "r2": "r2",
        "mae": "mean_absolute_error",
        "rmse": "root_mean_squared_error",
        "trivial_rmse": "trivial_rmse",
    },
}


def class_names(model: Location) -> list[str]:
    """Returns the classes of a Model artifact in the order of its outputs; none if it predicts a quantity."""
    labels = model / SERVING / LABELS.as_posix()
    return [escaping.unescape(name) for name in labels.read_text().split("\n")[:-1]] if labels.exists() else []


def read_result(evaluation: str, classes: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the evaluation artifact's metrics, thresholds and confusion matrix as plain values.

    Args:
        evaluation: folder of the artifact.
        classes: names of the classes in the order of the model's outputs.
    """
    result = tfma.load_eval_result(evaluation)
    names = [spec.name for spec in result.config.model_specs if not spec.is_baseline]
    if names[0]:  # TFMA names the models, and keys its plots by name, only when there are two of them
        result = tfma.load_eval_result(evaluation, model_name=names[0])
    (overall,) = [values for key, values in result.slicing_metrics if not key]
    metric = "accuracy" if "accuracy" in overall[""][""] else "r2"
    thresholds = _thresholds(overall[""][""], metric, result.config)
    slices = [_slice(key, values[""][""], metric, result.config) for key, values in result.slicing_metrics if key]
    validated = tfma.load_validation_result(evaluation)
    confusion = _confusion(result.plots) if metric == "accuracy" else []
    found = {name: _value(overall, key) for name, key in _SHOWN[metric].items()}
    metrics = {name: value for name, value in found.items() if math.isfinite(value)}
    return {
        "metrics": {**metrics, "examples": _value(overall, _COUNT)},
        "by_class": _by_class(confusion, classes),
        "compared": _compared(overall[""][""], result.config, COMPARED),
        "slices": slices,
        "confusion": confusion,
        "thresholds": thresholds,
        "failures": [
            *(f"{name} is {value:.4f}, expected {least}" for name, value, least, passed in thresholds if not passed),
            *(_worse(each, metric) for each in slices if each["passed"] is False),
        ],
        # TFMA's verdict decides the blessing; its messages are shown if the thresholds above give no reason.
        "tfma_failures": [
            failure.message for each in validated.metric_validations_per_slice for failure in each.failures
        ],
    }


def _by_class(confusion: Sequence[Sequence[int]], classes: Sequence[str]) -> dict[str, float]:
    """Returns the accuracy on the records of each class that is in the split, by its name, or its number."""
    records, right = Counter[int](), Counter[int]()
    for true, predicted, count in confusion:
        records[true] += count
        right[true] += count * (true == predicted)
    names = dict(enumerate(classes))
    return {names.get(each, str(each)): right[each] / records[each] for each in sorted(records)}


def _value(values: Any, metric: str) -> float:
    return _number(values[""][""], metric)


def _number(values: Any, metric: str) -> float:
    return float(values[metric]["doubleValue"])


def _thresholds(values: Any, metric: str, config: tfma.EvalConfig) -> list[tuple[str, float, str, bool]]:
    """Returns (metric, value, threshold, passed) for each threshold that was applied."""
    thresholds = config.metrics_specs[0].metrics[0].per_slice_thresholds
    reached = _number(values, metric)
    if thresholds:
        least = thresholds[0].threshold.value_threshold.lower_bound.value + ROUNDING
        applied = [(metric, reached, f"at least {least:g} (evaluate.min_{metric})", reached >= least - ROUNDING)]
    else:
        applied = [(metric, reached, _above_trivial(values, metric), _number(values, ABOVE_TRIVIAL) >= -ROUNDING)]
    compared = _compared(values, config, COMPARED)
    if compared["passed"] is not None:
        expected = f"at least {-compared['allowed']:+.4g} ({compared['limit']})"
        applied.append((f"{metric} change against the baseline", compared["change"], expected, compared["passed"]))
    if not_finite := _number(values, NOT_FINITE):
        applied.append(("number of predictions that are not finite", not_finite, "0", False))
    return applied


def _slice(key: Any, values: Any, metric: str, config: tfma.EvalConfig) -> dict[str, Any]:
    """Returns the metric on one slice, and how it compares with the baseline model, if there is one."""
    return {
        "column": str(key[0][0]),
        "value": str(key[0][1]),
        "metric": _number(values, metric),
        "records": int(_number(values, _COUNT)),
        **_compared(values, config, COMPARED_SLICES),
    }


def _compared(values: Any, config: tfma.EvalConfig, name: str) -> dict[str, Any]:
    """Returns the change against the baseline model, the drop that is allowed, and why; None without a baseline."""
    if f"{name}_{CHANGE}" not in values:
        return {"change": None, "allowed": None, "limit": "", "passed": None}
    change, allowed = (_number(values, f"{name}_{each}") for each in (CHANGE, ALLOWED))
    limit = _limit(allowed, _max_drop(config, name), f"evaluate.max_{'slice_' if name == COMPARED_SLICES else ''}drop")
    return {"change": change, "allowed": allowed, "limit": limit, "passed": change >= -allowed - ROUNDING}


def _worse(found: Mapping[str, Any], metric: str) -> str:
    """Says on which slice the candidate is worse, by how much, and what was allowed."""
    limit = found["limit"]
    if metric == "r2" and found["records"] < LEAST_RECORDS:
        limit += f"; on fewer than {LEAST_RECORDS} records, nothing is added for chance"
    return (
        f"{metric} on slice {found['column']} = {found['value']} is {found['metric']:.4f}, the baseline's "
        f"{found['metric'] - found['change']:.4f}: lower by {-found['change']:.4f} on {found['records']:,} records, "
        f"expected at most {found['allowed']:.4g} ({limit})"
    )


def _limit(allowed: float, max_drop: float, setting: str) -> str:
    """Says where an allowed drop comes from."""
    if max_drop and math.isclose(allowed, MOST_CHANCE * max_drop):
        return f"the most that chance may explain, {MOST_CHANCE:g} x {setting}"
    return setting if allowed <= max_drop else f"what chance explains, above {setting} = {max_drop:g}"


def _max_drop(config: tfma.EvalConfig, name: str) -> float:
    found = [orjson.loads(f"{{{each.config}}}") for each in config.metrics_specs[0].metrics if each.config]
    return float(next(each["max_drop"] for each in found if each["name"] == name))


def _above_trivial(values: Any, metric: str) -> str:
    """Returns the default threshold in words."""
    required = _number(values, f"required_{metric}")
    if metric == "r2":
        return f"at least {required:.4f} (always the mean: 0, margin {required:.4f})"
    trivial = _number(values, "trivial_accuracy")
    return f"at least {required:.4f} (always the most frequent class: {trivial:.4f}, margin {required - trivial:.4f})"


def _confusion(plots: Any) -> list[list[int]]:
    """Returns rows of [true class, predicted class, records]."""
    (overall,) = [values for key, values in plots if not key]
    (matrix,) = overall[""][""]["multiClassConfusionMatrixAtThresholds"]["matrices"]
    return [
        [entry.get("actualClassId", 0), entry.get("predictedClassId", 0), int(entry["numWeightedExamples"])]
        for entry in matrix["entries"]
    ]
