"""Which model may serve: the bars as TFMA thresholds, and which earlier model it is compared with.

test split + candidate + latest blessed model ─► Evaluator (TFMA) ─► blessing, or the reason against it
"""

from typing import Any

import tensorflow_model_analysis as tfma
from tfx import types
from tfx.dsl.components.common.resolver import ResolverStrategy

from components.settings import Evaluate

ACCURACY = "sparse_categorical_accuracy"
SPLIT = "test"
_ROUNDING = 1e-7  # TFMA counts in 32 bits: seven right of ten are a little less than 0.7 there


class LatestBlessedOther(ResolverStrategy):
    """Resolves the latest blessed model that is not the candidate itself.

    TFX's own strategy would resolve the candidate as soon as it is blessed: the next run, with nothing changed,
    would compare the model with itself and so miss the cache.
    """

    def resolve_artifacts(
        self, store: Any, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Returns the model, or none, under the keys that came in."""
        del store
        candidates = {artifact.id for artifact in input_dict["candidate"]}
        blessed = blessed_model_ids(artifact.mlmd_artifact for artifact in input_dict["model_blessing"])
        others = [a for a in input_dict["model"] if a.id in blessed and a.id not in candidates]
        latest = max(others, key=lambda artifact: artifact.id, default=None)
        return {**{key: [] for key in input_dict}, "model": [latest] if latest else []}


def blessed_model_ids(blessings: Any) -> set[int]:
    """Returns the ids of the models that these blessings bless."""
    return {
        blessing.custom_properties["current_model_id"].int_value
        for blessing in blessings
        if blessing.custom_properties["blessed"].int_value == 1
    }


def eval_config(label: str, bars: Evaluate) -> tfma.EvalConfig:
    """Returns what TFMA measures and which thresholds bless a model."""
    threshold = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": bars.min_accuracy - _ROUNDING}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER, absolute={"value": -bars.max_drop - _ROUNDING}
        ),
    )
    metrics = [
        tfma.MetricConfig(
            class_name="SparseCategoricalAccuracy",
            # For the whole split: a plain threshold would be applied to every class, however few records it has.
            per_slice_thresholds=[
                tfma.PerSliceMetricThreshold(slicing_specs=[tfma.SlicingSpec()], threshold=threshold)
            ],
        ),
        tfma.MetricConfig(class_name="ExampleCount"),
        # The default threshold of 0.5 would leave every unsure prediction out of the matrix.
        tfma.MetricConfig(class_name="MultiClassConfusionMatrixPlot", config='"thresholds": [0.0]'),
    ]
    return tfma.EvalConfig(
        model_specs=[tfma.ModelSpec(label_key=label, signature_name="serving_default")],
        slicing_specs=[tfma.SlicingSpec(), tfma.SlicingSpec(feature_keys=[label])],
        metrics_specs=[tfma.MetricsSpec(metrics=metrics)],
    )


def read_result(evaluation: str) -> dict[str, Any]:
    """Returns metrics, bars and the confusion matrix as plain values."""
    result = tfma.load_eval_result(evaluation)
    names = [spec.name for spec in result.config.model_specs if not spec.is_baseline]
    if names[0]:  # TFMA names the models, and keys its plots by name, only when there are two of them
        result = tfma.load_eval_result(evaluation, model_name=names[0])
    (overall,) = [values for key, values in result.slicing_metrics if not key]
    bars = _bars(overall[""][""], result.config)
    validated = tfma.load_validation_result(evaluation)
    return {
        "metrics": {"accuracy": _value(overall, ACCURACY), "examples": _value(overall, "example_count")},
        "by_class": {key[0][1]: _value(values, ACCURACY) for key, values in result.slicing_metrics if key},
        "confusion": _confusion(result.plots),
        "bars": bars,
        "failures": [f"{name} is {value:.4f}, {bar} was expected" for name, value, bar, passed in bars if not passed],
        # TFMA's own verdict is the one that blesses; should it know of a reason that the bars do not, it is told.
        "refused": [failure.message for each in validated.metric_validations_per_slice for failure in each.failures],
    }


def _value(values: Any, metric: str) -> float:
    return float(values[""][""][metric]["doubleValue"])


def _bars(values: Any, config: tfma.EvalConfig) -> list[tuple[str, float, str, bool]]:
    """Returns (what, value, bar, passed) for each threshold that was applied."""
    threshold = config.metrics_specs[0].metrics[0].per_slice_thresholds[0].threshold
    least = threshold.value_threshold.lower_bound.value + _ROUNDING
    accuracy = float(values[ACCURACY]["doubleValue"])
    bars = [("accuracy", accuracy, f"at least {least:g}", accuracy >= least - _ROUNDING)]
    if f"{ACCURACY}_diff" in values:
        change = float(values[f"{ACCURACY}_diff"]["doubleValue"])
        allowed = threshold.change_threshold.absolute.value + _ROUNDING
        passed = change >= allowed - _ROUNDING
        bars.append(("accuracy against the blessed model", change, f"at least {allowed:+g}", passed))
    return bars


def _confusion(plots: Any) -> list[list[int]]:
    """Returns rows of [true class, predicted class, records]."""
    (overall,) = [values for key, values in plots if not key]
    (matrix,) = overall[""][""]["multiClassConfusionMatrixAtThresholds"]["matrices"]
    return [
        [entry.get("actualClassId", 0), entry.get("predictedClassId", 0), int(entry["numWeightedExamples"])]
        for entry in matrix["entries"]
    ]
