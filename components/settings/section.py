"""The base class of all sections of the settings."""

from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic

from components.errors import SettingsError
from components.settings.names import nearest


class Section(pydantic.BaseModel):
    """A frozen group of settings that rejects unknown keys."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


SectionType = TypeVar("SectionType", bound=Section)


def checked(section: type[SectionType], values: Mapping[str, Any], *path: str) -> SectionType:
    """Returns a section with these values; raises SettingsError for an unknown key or a wrong value.

    Args:
        section: the class of the section.
        values: by key; those of inner sections are mappings.
        path: where the section is in the settings, for messages.
    """
    _reject_unknown(section, values, path)
    try:
        return section.model_validate(values)
    except pydantic.ValidationError as error:
        raise SettingsError(_explain(error, path)) from None


def split_names(value: Any) -> Any:
    """Splits the comma-separated names of a flag; returns a list unchanged."""
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else value


def _reject_unknown(section: type[Section], values: Mapping[str, Any], path: tuple[str, ...]) -> None:
    for key, value in values.items():
        where = ".".join((*path, key))
        if key not in section.model_fields:
            raise SettingsError(f"unknown setting {where!r}: {nearest(key, section.model_fields)}")
        inner = section.model_fields[key].annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            if not isinstance(value, Mapping):
                raise SettingsError(f"setting {where!r} is a section: expected {where}.KEY, got {value!r}")
            _reject_unknown(inner, value, (*path, key))


def _explain(error: pydantic.ValidationError, path: tuple[str, ...]) -> str:
    lines = []
    for item in error.errors():
        where = ".".join(str(part) for part in (*path, *item["loc"]))
        lines.append(f"setting {where}: {item['msg']} (got {item['input']!r})")
    return "\n".join(lines)
