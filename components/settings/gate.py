"""Settings of the Gate."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import pydantic

from components.settings.section import Section

Limit = Annotated[float, pydantic.Field(ge=0)]


class Gate(Section):
    """What the data must satisfy before training starts, and how far new spans may differ from the live model's data.

    What chance explains on as many records as there are is added to the thresholds of drift, new tokens and missing
    values.
    """

    min_per_class: int = pydantic.Field(
        1, ge=0, description="minimum number of records per class in each split; the train split needs at least 1"
    )
    drift: Literal["stop", "warn", "off"] = pydantic.Field(
        "stop",
        description="what happens if the new spans differ from the data of the live model by more than a threshold "
        "below: stop the run, warn, or do not compare; for data in spans",
    )
    max_number_drift: float = pydantic.Field(
        0.25,
        ge=0,
        description="how far the deciles of a number may move on average, relative to the distance from the first to "
        "the last decile; no distance: share of deciles with another value",
    )
    max_category_drift: float = pydantic.Field(
        0.2,
        ge=0,
        le=1,
        description="how far the relative frequency of a value of a category, or of all new values, may change (0–1)",
    )
    max_label_drift: float = pydantic.Field(
        0.2, ge=0, le=1, description="how far the relative frequency of a class may change (0–1)"
    )
    max_new_tokens: float = pydantic.Field(
        0.15,
        ge=0,
        le=1,
        description="how far the share of tokens that are not in the live model's vocabulary may grow (0–1)",
    )
    max_image_drift: float = pydantic.Field(
        0.25,
        ge=0,
        description="how far the deciles of brightness, contrast, entropy or size of the images of a column may move "
        "on average, relative to the distance from the first to the last decile",
    )
    max_missing_change: float = pydantic.Field(
        0.1, ge=0, le=1, description="how far the share of missing values of a column may change (0–1)"
    )
    max_class_changes: int = pydantic.Field(
        0, ge=0, description="maximum number of classes that the live model does not know, or that vanish"
    )
    max_record_ratio: float = pydantic.Field(
        5.0,
        ge=1,
        description="how many times more or fewer records a new span may have than the median of the other spans",
    )
    max_drift_of: dict[str, Limit] = pydantic.Field(
        {},
        description="drift threshold of single columns, by name, such as gate.max_drift_of.age=0.5; of images, of "
        "gate.max_drift_of.image.brightness, image.contrast, image.entropy or image.size",
    )

    @pydantic.field_validator("max_drift_of", mode="before")
    @classmethod
    def _with_dots(cls, given: Any) -> Any:
        """Returns thresholds by name; a flag of image.brightness arrives as {image: {brightness: …}}."""
        return dict(_flat("", given)) if isinstance(given, Mapping) else given


def _flat(prefix: str, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value
