"""Settings of the Evaluator."""

from typing import Any

import pydantic

from components.settings.section import Section, split_names


class Evaluate(Section):
    """The metric thresholds that a model must reach to be blessed, and the slices of its metrics."""

    min_accuracy: float = pydantic.Field(
        0.6, ge=0, le=1, description="minimum accuracy on the test split (0–1); for classification"
    )
    min_squared_correlation: float = pydantic.Field(
        0.3,
        ge=0,
        le=1,
        description="minimum squared correlation of predictions and labels on the test split (0–1); for regression",
    )
    max_drop: float = pydantic.Field(
        0.01, ge=0, le=1, description="how far the metric may be below that of the baseline model (0–1)"
    )
    slices: tuple[str, ...] = pydantic.Field((), description="columns to slice metrics by, separated by commas")

    @pydantic.field_validator("slices", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        return split_names(value)
