"""Settings of the Evaluator."""

import pydantic

from components.settings.section import Names, Section


class Evaluate(Section):
    """The metric thresholds that a model must reach to be blessed, and the slices of its metrics."""

    min_accuracy: float | None = pydantic.Field(
        None,
        ge=0,
        le=1,
        description="minimum accuracy on the test split (0–1); not set: significantly better than always answering the "
        "most frequent class; for classification",
    )
    min_r2: float | None = pydantic.Field(
        None,
        ge=0,
        le=1,
        description="minimum R² on the test split (0–1); not set: significantly better than always answering the mean; "
        "for regression",
    )
    max_drop: float = pydantic.Field(
        0.01,
        ge=0,
        le=1,
        description="how far the metric may be below that of the baseline model (0–1); on few test records, as far as "
        "chance explains (95 %); of R², up to five times this, and only from 8 records on",
    )
    max_slice_drop: float = pydantic.Field(
        0.05,
        ge=0,
        le=1,
        description="the same for every slice of the test split: how far its metric may be below that of the baseline "
        "model (0–1), at least evaluate.max_drop; on few records, as far as chance explains (99.5 %)",
    )
    slices: Names = pydantic.Field((), description="columns to slice metrics by, separated by commas")
