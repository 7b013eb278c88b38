"""A Task's parts at work: which columns each takes, the features that read them, and the encoders of a model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components import refs
from components.errors import SettingsError
from components.features import DataShape, Feature
from components.records.roles import Column, Layout
from components.settings.input import Input
from components.tasks import Part


@dataclass(frozen=True)
class Assigned:
    """A part, and the columns of the data that it takes."""

    part: Part
    columns: tuple[Column, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values."""
        refs_of = {"roles": list(self.part.roles), "feature": self.part.feature, "encoder": self.part.encoder}
        return {**refs_of, "fit": self.part.fit, "columns": [column.to_dict() for column in self.columns]}


def assign(parts: Iterable[Part], layout: Layout) -> tuple[Assigned, ...]:
    """Returns the parts with their columns; those without any are left out."""
    assigned = [Assigned(part, layout.of(part.roles)) for part in parts]
    found = tuple(each for each in assigned if each.columns)
    if not found:
        wanted = ", ".join(role for part in parts for role in part.roles)
        has = ", ".join(f"{column.name} ({column.role})" for column in layout.columns) or "none"
        raise SettingsError(f"no column to learn from: expected one of {wanted}; the schema's columns: {has}")
    return found


def read(told: Iterable[Mapping[str, Any]]) -> tuple[Assigned, ...]:
    """Reads what `to_dict` returned."""
    return tuple(
        Assigned(
            Part(tuple(each["roles"]), each["feature"], each["encoder"], each["fit"]),
            tuple(Column.from_dict(column) for column in each["columns"]),
        )
        for each in told
    )


def features(parts: Iterable[Assigned], fitted: Any, settings: Input, data: DataShape) -> dict[str, Feature]:
    """Returns all features of a record."""
    found: dict[str, Feature] = {}
    for each in parts:
        found |= refs.load(each.part.feature)(each.columns, fitted, settings, data)
    return found


def encodings(parts: Iterable[Assigned], inputs: Mapping[str, Any], fitted: Any) -> Sequence[Any]:
    """Returns what a model joins."""
    return [encoding for each in parts for encoding in refs.load(each.part.encoder)(inputs, each.columns, fitted)]
