"""The one noun: a Task says how raw files become records, what they mean, and what a model must reach.

    raw files ─► source ─► records ─► preprocess (fitted) ─► features (decode, augment) ─► model ─► bars

To add a task, write `components/tasks/<name>.py` with a `TASK`, and add its name to `NAMES`.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.errors import SettingsError
from components.settings import nearest

NAMES = ("image",)


@dataclass(frozen=True)
class Task:
    """What the chain has to know of one kind of data. Parts are references (see `components.refs`)."""

    name: str
    summary: str
    sources: tuple[str, ...]  # raw files -> records (`components.ingest.sources`); which one, the data decides
    schema: str  # curated schema, relative to the repository
    features: tuple[tuple[str, str], ...]  # (key in the record, modality of it)
    label: str
    preprocess: str  # what Transform fits
    model: str  # (features, classes) -> Keras model
    sample_data: str  # folder of the generated sample
    settings: Mapping[str, Any] = field(default_factory=dict)  # the task's own defaults


def get(name: str) -> Task:
    """Returns the task of that name."""
    if name not in NAMES:
        raise SettingsError(f"unknown task {name!r}: {nearest(name, NAMES)}")
    task: Task = importlib.import_module(f"components.tasks.{name}").TASK
    return task
