"""Settings of the Evaluator."""

from typing import Any

import pydantic

from components.settings.section import Section, split_names


class Evaluate(Section):
    """The bars that a model must pass to be blessed."""

    min_accuracy: float = pydantic.Field(0.6, ge=0, le=1)
    min_explained: float = pydantic.Field(
        0.3, ge=0, le=1, description="of a quantity: squared correlation of what is predicted with what is right"
    )
    max_drop: float = pydantic.Field(0.01, ge=0, le=1, description="below the model that is blessed now")
    slices: tuple[str, ...] = pydantic.Field((), description="columns whose values are looked at one by one as well")

    @pydantic.field_validator("slices", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        return split_names(value)
