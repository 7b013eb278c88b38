"""Assigns the columns of the data to the parts of a Task, and builds their features and encodings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from components import refs
from components.errors import SettingsError
from components.features import DataShape, Feature
from components.records.roles import Column, Layout
from components.settings.input import Input
from components.tasks import Part


@dataclass(frozen=True)
class Assigned:
    """A part with the columns that it takes."""

    part: Part
    columns: tuple[Column, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, for a node's custom_config."""
        return {**asdict(self.part), "columns": [column.to_dict() for column in self.columns]}


def assign(parts: Iterable[Part], layout: Layout) -> tuple[Assigned, ...]:
    """Returns the parts with their columns; parts without columns are skipped."""
    assigned = [Assigned(part, layout.of(part.roles)) for part in parts]
    found = tuple(each for each in assigned if each.columns)
    if not found:
        wanted = " or ".join(role for part in parts for role in part.roles)
        has = ", ".join(f"{column.name} ({column.role})" for column in layout.columns) or "no columns"
        raise SettingsError(f"no column to learn from; expected one with the role {wanted}; the schema has {has}")
    return found


def read(values: Iterable[Mapping[str, Any]]) -> tuple[Assigned, ...]:
    """Returns the parts from what `to_dict` returned."""
    return tuple(
        Assigned(
            Part(tuple(each["roles"]), each["feature"], each["encoder"], each["fit"], each["names"]),
            tuple(Column.from_dict(column) for column in each["columns"]),
        )
        for each in values
    )


def features(parts: Iterable[Assigned], fitted: Any, settings: Input, data: DataShape) -> dict[str, Feature]:
    """Returns the features of all parts, by name."""
    features: dict[str, Feature] = {}
    for each in parts:
        features |= refs.load(each.part.feature)(each.columns, fitted, settings, data)
    return features


def encodings(parts: Iterable[Assigned], inputs: Mapping[str, Any], fitted: Any) -> Sequence[Any]:
    """Returns the encodings of all parts, in their order."""
    return [encoding for each in parts for encoding in refs.load(each.part.encoder)(inputs, each.columns, fitted)]


def names(parts: Iterable[Assigned], fitted: Any) -> dict[str, Any]:
    """Returns the names of the rows of weights, by weight path."""
    return {
        path: axis
        for each in parts
        if each.part.names
        for path, axis in refs.load(each.part.names)(each.columns, fitted).items()
    }
