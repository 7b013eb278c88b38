"""Metrics, slices and metric thresholds of the Evaluator, as a TFMA EvalConfig.

test split + candidate + baseline model ─► Evaluator (TFMA) ─► blessing, or the thresholds that were missed
"""

import tensorflow_model_analysis as tfma

from components.records.roles import Layout, length_column
from components.settings.evaluate import Evaluate

SPLIT = "test"
ROUNDING = 1e-7  # TFMA computes in 32 bits: 7 correct of 10 are slightly less than 0.7


def eval_config(layout: Layout, settings: Evaluate) -> tfma.EvalConfig:
    """Returns the metrics TFMA computes, by which columns it slices them, and which thresholds bless a model."""
    is_class = layout.kind == "class"
    metrics = _class_metrics(settings) if is_class else _quantity_metrics(settings)
    known = {column.name for column in layout.columns}
    lengths = [length_column(column.name) for column in layout.of(["text"])]
    # A task's default slices name columns of its sample data; other data may not have them.
    sliced = [*([layout.label] if is_class else []), *lengths, *(name for name in settings.slices if name in known)]
    model = tfma.ModelSpec(label_key=layout.label, signature_name="serving_default")
    if not is_class:
        model.prediction_key = "value"
    return tfma.EvalConfig(
        model_specs=[model],
        slicing_specs=[tfma.SlicingSpec(), *(tfma.SlicingSpec(feature_keys=[key]) for key in sliced)],
        metrics_specs=[tfma.MetricsSpec(metrics=[*metrics, tfma.MetricConfig(class_name="ExampleCount")])],
    )


def _class_metrics(settings: Evaluate) -> list[tfma.MetricConfig]:
    return [
        _with_threshold("SparseCategoricalAccuracy", settings.min_accuracy, settings.max_drop),
        # The default threshold of 0.5 would leave every unsure prediction out of the matrix.
        tfma.MetricConfig(class_name="MultiClassConfusionMatrixPlot", config='"thresholds": [0.0]'),
    ]


def _quantity_metrics(settings: Evaluate) -> list[tfma.MetricConfig]:
    """Returns regression metrics; the threshold is on one that does not depend on the label's unit."""
    return [
        _with_threshold("SquaredPearsonCorrelation", settings.min_squared_correlation, settings.max_drop),
        tfma.MetricConfig(class_name="MeanAbsoluteError"),
        tfma.MetricConfig(class_name="RootMeanSquaredError"),
    ]


def _with_threshold(metric: str, least: float, max_drop: float) -> tfma.MetricConfig:
    """Returns a metric with thresholds on the whole split; single slices have none."""
    threshold = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": least - ROUNDING}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER, absolute={"value": -max_drop - ROUNDING}
        ),
    )
    return tfma.MetricConfig(
        class_name=metric,
        per_slice_thresholds=[tfma.PerSliceMetricThreshold(slicing_specs=[tfma.SlicingSpec()], threshold=threshold)],
    )
