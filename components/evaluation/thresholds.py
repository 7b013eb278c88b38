"""Which model may serve: the bars as TFMA thresholds, and which earlier model it is compared with.

test split + candidate + latest blessed model ─► Evaluator (TFMA) ─► blessing, or the reason against it
"""

from pathlib import Path
from typing import Any

import tensorflow_model_analysis as tfma
from tfx import types
from tfx.dsl.components.common.resolver import ResolverStrategy

from components.features.text import length_of
from components.pretrained.extractor import is_comparable
from components.records.roles import Layout
from components.settings.evaluate import Evaluate

ACCURACY, EXPLAINED = "sparse_categorical_accuracy", "squared_pearson_correlation"
_NAMES = {ACCURACY: "accuracy", EXPLAINED: "explained"}
SPLIT = "test"
_COUNT = "example_count"
_ROUNDING = 1e-7  # TFMA counts in 32 bits: seven right of ten are a little less than 0.7 there


class LatestBlessedOther(ResolverStrategy):
    """Resolves the latest blessed model that is not the candidate itself, and can read what the candidate reads.

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
        others = [
            other
            for other in input_dict["model"]
            if other.id in blessed - candidates
            and all(is_comparable(Path(other.uri), Path(each.uri)) for each in input_dict["candidate"])
        ]
        latest = max(others, key=lambda artifact: artifact.id, default=None)
        return {**{key: [] for key in input_dict}, "model": [latest] if latest else []}


def blessed_model_ids(blessings: Any) -> set[int]:
    """Returns the ids of the models that these blessings bless."""
    return {
        blessing.custom_properties["current_model_id"].int_value
        for blessing in blessings
        if blessing.custom_properties["blessed"].int_value == 1
    }


def eval_config(layout: Layout, bars: Evaluate) -> tfma.EvalConfig:
    """Returns what TFMA measures and which thresholds bless a model."""
    is_class = layout.kind == "class"
    metrics = _of_classes(bars) if is_class else _of_quantities(bars)
    known = {column.name for column in layout.columns}
    lengths = [length_of(column.name) for column in layout.of(["text"])]
    # A column that this data does not have may be another's: a task's own defaults name those of its sample.
    sliced = [*([layout.label] if is_class else []), *lengths, *(name for name in bars.slices if name in known)]
    model = tfma.ModelSpec(label_key=layout.label, signature_name="serving_default")
    if not is_class:
        model.prediction_key = "value"
    return tfma.EvalConfig(
        model_specs=[model],
        slicing_specs=[tfma.SlicingSpec(), *(tfma.SlicingSpec(feature_keys=[key]) for key in sliced)],
        metrics_specs=[tfma.MetricsSpec(metrics=[*metrics, tfma.MetricConfig(class_name="ExampleCount")])],
    )


def _of_classes(bars: Evaluate) -> list[tfma.MetricConfig]:
    return [
        _barred("SparseCategoricalAccuracy", bars.min_accuracy, bars.max_drop),
        # The default threshold of 0.5 would leave every unsure prediction out of the matrix.
        tfma.MetricConfig(class_name="MultiClassConfusionMatrixPlot", config='"thresholds": [0.0]'),
    ]


def _of_quantities(bars: Evaluate) -> list[tfma.MetricConfig]:
    """The bar has no unit, whatever the label's is."""
    return [
        _barred("SquaredPearsonCorrelation", bars.min_explained, bars.max_drop),
        tfma.MetricConfig(class_name="MeanAbsoluteError"),
        tfma.MetricConfig(class_name="RootMeanSquaredError"),
    ]


def _barred(metric: str, least: float, max_drop: float) -> tfma.MetricConfig:
    """Returns a metric that must be reached on the whole split; on each class it may be anything."""
    threshold = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": least - _ROUNDING}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER, absolute={"value": -max_drop - _ROUNDING}
        ),
    )
    return tfma.MetricConfig(
        class_name=metric,
        per_slice_thresholds=[tfma.PerSliceMetricThreshold(slicing_specs=[tfma.SlicingSpec()], threshold=threshold)],
    )


def read_result(evaluation: str) -> dict[str, Any]:
    """Returns metrics, bars and the confusion matrix as plain values."""
    result = tfma.load_eval_result(evaluation)
    names = [spec.name for spec in result.config.model_specs if not spec.is_baseline]
    if names[0]:  # TFMA names the models, and keys its plots by name, only when there are two of them
        result = tfma.load_eval_result(evaluation, model_name=names[0])
    (overall,) = [values for key, values in result.slicing_metrics if not key]
    metric = ACCURACY if ACCURACY in overall[""][""] else EXPLAINED
    label = result.config.model_specs[0].label_key
    bars = _bars(overall[""][""], metric, result.config)
    validated = tfma.load_validation_result(evaluation)
    return {
        "metrics": {_NAMES[metric]: _value(overall, metric), **_errors(overall), "examples": _value(overall, _COUNT)},
        "by_class": {key[0][1]: _value(v, metric) for key, v in result.slicing_metrics if key and key[0][0] == label},
        "slices": [
            [str(key[0][0]), str(key[0][1]), _value(values, metric), int(_value(values, _COUNT))]
            for key, values in result.slicing_metrics
            if key and key[0][0] != label
        ],
        "confusion": _confusion(result.plots) if metric == ACCURACY else [],
        "bars": bars,
        "failures": [f"{name} is {value:.4f}, {bar} was expected" for name, value, bar, passed in bars if not passed],
        # TFMA's own verdict is the one that blesses; should it know of a reason that the bars do not, it is told.
        "refused": [failure.message for each in validated.metric_validations_per_slice for failure in each.failures],
    }


def _value(values: Any, metric: str) -> float:
    return float(values[""][""][metric]["doubleValue"])


def _errors(overall: Any) -> dict[str, float]:
    """Returns errors in the label's own unit, where it is a quantity."""
    names = {"mean_absolute_error": "mae", "root_mean_squared_error": "rmse"}
    return {name: _value(overall, metric) for metric, name in names.items() if metric in overall[""][""]}


def _bars(values: Any, metric: str, config: tfma.EvalConfig) -> list[tuple[str, float, str, bool]]:
    """Returns (what, value, bar, passed) for each threshold that was applied."""
    name = _NAMES[metric]
    threshold = config.metrics_specs[0].metrics[0].per_slice_thresholds[0].threshold
    least = threshold.value_threshold.lower_bound.value + _ROUNDING
    reached = float(values[metric]["doubleValue"])
    bars = [(name, reached, f"at least {least:g}", reached >= least - _ROUNDING)]
    if f"{metric}_diff" in values:
        change = float(values[f"{metric}_diff"]["doubleValue"])
        allowed = threshold.change_threshold.absolute.value + _ROUNDING
        passed = change >= allowed - _ROUNDING
        bars.append((f"{name} against the blessed model", change, f"at least {allowed:+g}", passed))
    return bars


def _confusion(plots: Any) -> list[list[int]]:
    """Returns rows of [true class, predicted class, records]."""
    (overall,) = [values for key, values in plots if not key]
    (matrix,) = overall[""][""]["multiClassConfusionMatrixAtThresholds"]["matrices"]
    return [
        [entry.get("actualClassId", 0), entry.get("predictedClassId", 0), int(entry["numWeightedExamples"])]
        for entry in matrix["entries"]
    ]
