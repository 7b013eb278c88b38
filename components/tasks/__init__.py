"""The one noun: a Task says how raw files become records, what they mean, and what a model must reach.

    raw files ─► source ─► records ─► columns by role ─► parts: fit, feature, encoder ─► joined, head ─► bars

To add a task, write `components/tasks/<name>.py` with a `TASK`, and add its name to `NAMES`.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.errors import SettingsError

NAMES = ("image", "text", "tensor", "tabular", "multimodal")


@dataclass(frozen=True)
class Part:
    """One modality of a task's records. What works on it are references (see `components.refs`)."""

    roles: tuple[str, ...]  # of the columns that it takes (`components.records.roles`)
    feature: str  # (columns, fitted, settings, data) -> features by name
    encoder: str  # (inputs of the model, columns, fitted) -> encodings
    fit: str = ""  # (inputs, columns, settings) -> what Transform fits and applies; empty: nothing


@dataclass(frozen=True)
class Task:
    """What the chain has to know of one kind of data."""

    name: str
    summary: str
    sources: tuple[str, ...]  # raw files -> records (`components.ingest.sources`); which one, the data decides
    schema: str  # curated schema of the sample data, relative to the repository
    parts: tuple[Part, ...]
    sample_data: str  # folder of the generated sample
    needs: tuple[str, ...] = ()  # roles without a column of which there is nothing to learn from
    label: str = "label"
    model: str = "components.models.joined:build"  # (inputs, encodings, head) -> Keras model
    settings: Mapping[str, Any] = field(default_factory=dict)  # the task's own defaults

    @property
    def fits(self) -> tuple[str, ...]:
        """All that Transform fits."""
        return tuple(part.fit for part in self.parts if part.fit)

    @property
    def features(self) -> tuple[str, ...]:
        """All that reads."""
        return tuple(part.feature for part in self.parts)

    @property
    def encoders(self) -> tuple[str, ...]:
        """All that models are made of."""
        return tuple(part.encoder for part in self.parts)


def get(name: str) -> Task:
    """Returns the task of that name."""
    if name not in NAMES:
        from components.settings.names import (
            nearest,  # the command's help names all tasks, and must not wait for Pydantic
        )

        raise SettingsError(f"unknown task {name!r}: {nearest(name, NAMES)}")
    task: Task = importlib.import_module(f"components.tasks.{name}").TASK
    return task
