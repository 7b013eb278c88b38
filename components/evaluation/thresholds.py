"""Metrics, slices and metric thresholds of the Evaluator, as a TFMA EvalConfig.

test split + candidate + baseline model ─► Evaluator (TFMA) ─► blessing, or the thresholds that were missed
"""

from typing import Any

import orjson
import tensorflow_model_analysis as tfma

from components.evaluation import comparison, extractors, metrics
from components.records.roles import Layout, length_column
from components.settings.evaluate import Evaluate

SPLIT = "test"
EXTRACTORS = extractors.__name__  # what the Evaluator reads of each record
ROUNDING = 1e-7  # 0.65 - 0.66 is slightly less than -0.01
COMPARED, COMPARED_SLICES = "against_baseline", "slices_against_baseline"
# Of a slice, a tenth of the whole split's 5 %: there are many slices, and each one could be worse by chance.
SLICE_CONFIDENCE = 0.995


def eval_config(layout: Layout, settings: Evaluate) -> tfma.EvalConfig:
    """Returns the metrics TFMA computes, by which columns it slices them, and which thresholds bless a model."""
    is_class = layout.kind == "class"
    measured = _class_metrics(settings) if is_class else _quantity_metrics(settings)
    known = {column.name for column in layout.columns}
    lengths = [length_column(column.name) for column in layout.of(["text"])]
    # `schema_settings.check_evaluate` has rejected unknown names, except a task's defaults.
    sliced = [*lengths, *(name for name in settings.slices if name in known)]
    model = tfma.ModelSpec(label_key=layout.label, signature_name="serving_default")
    if not is_class:
        model.prediction_key = "value"
    return tfma.EvalConfig(
        model_specs=[model],
        slicing_specs=[tfma.SlicingSpec(), *(tfma.SlicingSpec(feature_keys=[key]) for key in sliced)],
        metrics_specs=[
            tfma.MetricsSpec(
                metrics=[
                    *measured,
                    *_against_baseline(layout.kind, settings),
                    tfma.MetricConfig(class_name="ExampleCount"),
                ]
            )
        ],
    )


def _class_metrics(settings: Evaluate) -> list[tfma.MetricConfig]:
    return [
        *_with_thresholds("OfClasses", "accuracy", settings.min_accuracy),
        *(_metric("OfClasses", name) for name in ("macro_f1", "auc", "trivial_accuracy", "required_accuracy")),
        _all_finite("OfClasses"),
        _metric("ConfusionMatrix", "multi_class_confusion_matrix_plot"),
    ]


def _quantity_metrics(settings: Evaluate) -> list[tfma.MetricConfig]:
    """Returns regression metrics; the threshold is on one that does not depend on the label's unit."""
    return [
        *_with_thresholds("OfQuantities", "r2", settings.min_r2),
        *(
            _metric("OfQuantities", name)
            for name in ("mean_absolute_error", "root_mean_squared_error", "trivial_rmse", "required_r2")
        ),
        _all_finite("OfQuantities"),
    ]


def _with_thresholds(kind: str, name: str, least: float | None) -> list[tfma.MetricConfig]:
    """Returns a metric with its minimum; without one, the distance from the trivial model has a minimum."""
    limit = tfma.GenericValueThreshold(lower_bound={"value": (least or 0.0) - ROUNDING})
    if least is not None:
        return [_metric(kind, name, value_threshold=limit)]
    return [_metric(kind, name), _metric(kind, metrics.ABOVE_TRIVIAL, value_threshold=limit)]


def _against_baseline(kind: str, settings: Evaluate) -> list[tfma.MetricConfig]:
    """Returns the comparison with the baseline model: of the whole split, and of every slice with its own limits."""
    reached = tfma.MetricThreshold(
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER, absolute={"value": -ROUNDING}
        )
    )
    whole = tfma.PerSliceMetricThreshold(slicing_specs=[tfma.SlicingSpec()], threshold=reached)
    # TFMA rejects a model if a column that is named in a threshold is missing in all records. A threshold without
    # columns is for all slices; the whole split passes it if it passes its own, which is not less strict.
    slice_drop = max(settings.max_slice_drop, settings.max_drop)
    return [
        _compared(COMPARED, kind, settings.max_drop, metrics.CONFIDENCE, per_slice_thresholds=[whole]),
        _compared(COMPARED_SLICES, kind, slice_drop, SLICE_CONFIDENCE, threshold=reached),
    ]


def _compared(name: str, kind: str, max_drop: float, confidence: float, **threshold: Any) -> tfma.MetricConfig:
    values = {"name": name, "kind": kind, "max_drop": max_drop, "confidence": confidence}
    return tfma.MetricConfig(
        class_name=comparison.AgainstBaseline.__name__,
        module=comparison.__name__,
        config=orjson.dumps(values).decode()[1:-1],
        **threshold,
    )


def _all_finite(kind: str) -> tfma.MetricConfig:
    """Returns the number of predictions that are not finite; a model that makes one is not blessed."""
    return _metric(kind, metrics.NOT_FINITE, value_threshold=tfma.GenericValueThreshold(upper_bound={"value": 0.5}))


def _metric(kind: str, name: str, **thresholds: Any) -> tfma.MetricConfig:
    """Returns a metric of ours with thresholds on the whole split; single slices have none."""
    on_all = tfma.PerSliceMetricThreshold(
        slicing_specs=[tfma.SlicingSpec()], threshold=tfma.MetricThreshold(**thresholds)
    )
    return tfma.MetricConfig(
        class_name=kind,
        module=metrics.__name__,
        config=f'"name": "{name}"',
        per_slice_thresholds=[on_all] if thresholds else [],
    )
