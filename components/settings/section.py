"""The base class of all sections of the settings."""

from typing import Any

import pydantic


class Section(pydantic.BaseModel):
    """A frozen group of settings that rejects unknown keys."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


def split_names(value: Any) -> Any:
    """Splits the comma-separated names of a flag; returns a list unchanged."""
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else value
