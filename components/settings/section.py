"""What all sections of the settings share."""

from typing import Any

import pydantic


class Section(pydantic.BaseModel):
    """A frozen group of settings that refuses unknown keys."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


def split_names(value: Any) -> Any:
    """Returns names that a flag gives with commas between them; what is a list already is left alone."""
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else value
