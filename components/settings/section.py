"""The base class of all sections of the settings, and types of values that several sections have."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args

import pydantic

from components.errors import SettingsError
from components.settings.names import check_path, check_place, nearest

NOT_IN_KEY: dict[str, Any] = {"in_key": False}  # json_schema_extra of a setting that cannot change a node's result


class Section(pydantic.BaseModel):
    """A frozen group of settings that rejects unknown keys."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def paths(cls) -> set[str]:
        """Returns the names of the settings that are paths on this machine."""
        return {name for name, field in cls.model_fields.items() if _PATH in field.metadata}


def split_names(value: Any) -> Any:
    """Returns the values that a flag separates by commas; anything else as it is."""
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else value


_PATH = pydantic.AfterValidator(check_path)
LocalPath = Annotated[str, _PATH]
Place = Annotated[str, pydantic.AfterValidator(check_place)]  # on this machine, or on an object store
Names = Annotated[tuple[str, ...], pydantic.BeforeValidator(split_names)]  # a flag separates them by commas
Numbers = Annotated[tuple[int, ...], pydantic.BeforeValidator(split_names)]
SectionType = TypeVar("SectionType", bound=Section)


def checked(section: type[SectionType], values: Mapping[str, Any], *path: str) -> SectionType:
    """Returns a section with these values; raises SettingsError for an unknown key or a wrong value.

    Args:
        section: the class of the section.
        values: by key; those of inner sections are mappings.
        path: where the section is in the settings, for messages.
    """
    try:
        return section.model_validate(values)
    except pydantic.ValidationError as error:
        raise SettingsError("\n".join(_explain(section, item, path) for item in error.errors())) from None


def _explain(section: type[Section], error: Any, path: tuple[str, ...]) -> str:
    *outer, key = error["loc"] or [""]
    where, value = ".".join(map(str, (*path, *error["loc"]))), _shown(_kind_of(section, error["loc"]), error["input"])
    if error["type"] == "extra_forbidden":
        for name in outer:
            section = section.model_fields[name].annotation  # type: ignore[assignment]
        return f"unknown setting {where!r}: {nearest(key, section.model_fields)}"
    if error["type"] == "model_type":
        return f"setting {where!r} is a section: expected {where}.KEY, got {value!r}"
    return f"setting {where}: {error['msg']} (got {value!r})"


def _kind_of(kind: Any, path: tuple[str | int, ...]) -> Any:
    """Returns the type of a section or setting; None for what has no type of its own, such as an element of a list."""
    for name in path:
        kind = _fields(kind)[name].annotation if name in _fields(kind) else None
    return kind


def _shown(kind: Any, value: Any) -> Any:
    """Returns a value with *** instead of secrets."""
    if pydantic.SecretStr in (kind, *get_args(kind)):
        return "***"
    fields = _fields(kind)
    if isinstance(value, Mapping):
        return {name: _shown(fields[name].annotation if name in fields else None, each) for name, each in value.items()}
    is_secret = any(pydantic.SecretStr in get_args(field.annotation) for field in fields.values())
    return "***" if is_secret else value


def _fields(kind: Any) -> Mapping[Any, Any]:
    return kind.model_fields if isinstance(kind, type) and issubclass(kind, Section) else {}
