"""Which model may serve: the bars as TFMA thresholds, and which earlier model it is compared with.

    test split + candidate + latest blessed model ─► Evaluator (TFMA) ─► blessing, or the reason against it
"""

from typing import Any

import tensorflow_model_analysis as tfma
from google.protobuf import json_format
from tfx import types
from tfx.dsl.components.common.resolver import ResolverStrategy

from components.settings import Evaluate

ACCURACY = "sparse_categorical_accuracy"
SPLIT = "test"
_CONFUSION = "multi_class_confusion_matrix_plot"
_PLOT_BY = "by_class"


class LatestBlessedOther(ResolverStrategy):
    """Resolves the latest blessed model that is not the candidate itself.

    TFX's own strategy would resolve the candidate as soon as it is blessed: the next run, with nothing changed,
    would compare the model with itself and so miss the cache.
    """

    def resolve_artifacts(
        self, store: Any, input_dict: dict[str, list[types.Artifact]]  # noqa: ANN401 - an MLMD store
    ) -> dict[str, list[types.Artifact]]:
        """Returns the model, or none, under the keys that came in."""
        candidates = {artifact.id for artifact in input_dict["candidate"]}
        blessed = blessed_model_ids(artifact.mlmd_artifact for artifact in input_dict["model_blessing"])
        others = [a for a in input_dict["model"] if a.id in blessed and a.id not in candidates]
        latest = max(others, key=lambda artifact: artifact.id, default=None)
        return {**{key: [] for key in input_dict}, "model": [latest] if latest else []}


def blessed_model_ids(blessings: Any) -> set[int]:  # noqa: ANN401 - MLMD protos
    """Returns the ids of the models that these blessings bless."""
    return {
        blessing.custom_properties["current_model_id"].int_value
        for blessing in blessings
        if blessing.custom_properties["blessed"].int_value == 1
    }


def eval_config(label: str, bars: Evaluate) -> tfma.EvalConfig:
    """Returns what TFMA measures and which thresholds bless a model."""
    threshold = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": bars.min_accuracy}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER, absolute={"value": -bars.max_drop}
        ),
    )
    metrics = [
        tfma.MetricConfig(class_name="SparseCategoricalAccuracy", threshold=threshold),
        tfma.MetricConfig(class_name="ExampleCount"),
        tfma.MetricConfig(class_name="MultiClassConfusionMatrixPlot"),
    ]
    return tfma.EvalConfig(
        model_specs=[tfma.ModelSpec(label_key=label, signature_name="serving_default")],
        slicing_specs=[tfma.SlicingSpec(), tfma.SlicingSpec(feature_keys=[label])],
        metrics_specs=[tfma.MetricsSpec(metrics=metrics)],
    )


def read_result(evaluation: str) -> dict[str, Any]:
    """Returns metrics, bars and the confusion matrix as plain values."""
    result = tfma.load_eval_result(evaluation)
    overall = _overall(result.slicing_metrics)
    return {
        "metrics": {"accuracy": overall[ACCURACY], "examples": overall["example_count"]},
        "by_class": {key[0][1]: _value(values, ACCURACY) for key, values in result.slicing_metrics if key},
        "confusion": _confusion(result),
        "failures": _failures(evaluation),
    }


def _overall(slices: Any) -> dict[str, float]:  # noqa: ANN401 - TFMA's nested result
    (values,) = [values for key, values in slices if not key]
    return {name: _value(values, name) for name in (ACCURACY, "example_count")}


def _value(values: Any, metric: str) -> float:  # noqa: ANN401 - TFMA's nested result
    return float(values[""][""][metric]["doubleValue"])


def _confusion(result: Any) -> list[list[int]]:  # noqa: ANN401 - TFMA's nested result
    """Returns rows of [true class, predicted class, records]."""
    for key, plots in result.plots:
        if key:
            continue
        matrices = plots[""][""].get("multiClassConfusionMatrixAtThresholds", {}).get("matrices", [])
        entries = matrices[0].get("entries", []) if matrices else []
        return [
            [entry.get("actualClassId", 0), entry.get("predictedClassId", 0), int(entry["numWeightedExamples"])]
            for entry in entries
        ]
    return []


def _failures(evaluation: str) -> list[str]:
    """Returns why the model was not blessed, one line a bar."""
    result = tfma.load_validation_result(evaluation)
    lines = []
    for validation in result.metric_validations_per_slice:
        for failure in validation.failures:
            lines.append(f"{failure.metric_key.name}: {_failure_text(failure)}")
    return lines


def _failure_text(failure: Any) -> str:  # noqa: ANN401 - a TFMA proto
    value = failure.metric_value.double_value.value
    threshold = failure.metric_threshold
    if threshold.HasField("change_threshold"):
        return f"{value:+.4f} against the blessed model, allowed {threshold.change_threshold.absolute.value:+.4f}"
    if threshold.HasField("value_threshold"):
        return f"{value:.4f}, at least {threshold.value_threshold.lower_bound.value:g} was expected"
    return failure.message or json_format.MessageToJson(failure)
