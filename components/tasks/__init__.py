"""Task: how raw files become records, what their columns mean, and which model learns from them.

    raw files ─► source ─► records ─► columns by role ─► parts: fit, feature, encoder ─► joined model, head

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
    """One modality of a task: the roles of its columns, and the functions that work on them.

    Functions are references of the form `package.module:name` (see `components.refs`), so that a Task can be read
    without importing TensorFlow.

    Attributes:
        roles: roles of the columns that the part takes (see `components.records.roles`).
        feature: `(columns, fitted, settings, data) -> features by name`; reads the columns of a record.
        encoder: `(inputs, columns, fitted) -> encodings`; the part's share of the Keras model.
        fit: `(inputs, columns, settings) -> outputs by name`; what Transform fits. Empty if there is nothing to fit.
        names: `(columns, fitted) -> AxisNames by weight path`; the meaning of the rows of fitted weights, so that a
            warm start maps them by name. Empty if the data does not decide about the order of rows.
    """

    roles: tuple[str, ...]
    feature: str
    encoder: str
    fit: str = ""
    names: str = ""


@dataclass(frozen=True)
class Task:
    """A kind of learning problem: everything the pipeline needs to know about one kind of data.

    Attributes:
        name: the task's name on the command line.
        summary: one line for `penstock --help`.
        sources: references to the sources that can read its raw files; the data decides which one does.
        schema: path of the curated schema of the sample data, relative to the repository.
        parts: the modalities of a record; a part without columns in the data is skipped.
        sample_data: folder of the generated sample data.
        required_roles: roles of which the data must have at least one column.
        label: name of the label column.
        model: reference to `(inputs, encodings, head) -> Keras model`.
        defaults: settings that differ from the general defaults, by section.
    """

    name: str
    summary: str
    sources: tuple[str, ...]
    schema: str
    parts: tuple[Part, ...]
    sample_data: str
    required_roles: tuple[str, ...] = ()
    label: str = "label"
    model: str = "components.models.joined:build"
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fits(self) -> tuple[str, ...]:
        """References to the functions that Transform traces."""
        return tuple(part.fit for part in self.parts if part.fit)

    @property
    def features(self) -> tuple[str, ...]:
        """References to the functions that read records."""
        return tuple(part.feature for part in self.parts)

    @property
    def encoders(self) -> tuple[str, ...]:
        """References to the functions that encode features."""
        return tuple(part.encoder for part in self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """References to the functions that name the rows of weights."""
        return tuple(part.names for part in self.parts if part.names)


def get(name: str) -> Task:
    """Returns the task of that name; raises SettingsError with the nearest name if there is none."""
    if name not in NAMES:
        from components.settings.names import nearest  # imports Pydantic, which `penstock --help` must not wait for

        raise SettingsError(f"unknown task {name!r}: {nearest(name, NAMES)}")
    task: Task = importlib.import_module(f"components.tasks.{name}").TASK
    return task
