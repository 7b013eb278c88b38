"""What is measured: the batches that training would read, the same up to each stage, and the tutorial way.

    read      serialized records in the order of an epoch
    parse     … and their columns
    decode    … and what is in them, for images the part that is shown
    augment   … and varied
    batch     … and cut into batches, padded, mixed, handed over: all that training reads

A stage's cost is the difference to the one before it. What comes before `batch` hands over a count and next to no data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.features import Feature
from components.input_pipeline import Reader, RecordFile, artifacts, probe
from components.records import manifest
from components.settings.input import Input
from components.tasks import Task, assign
from pipelines.bench import records

STAGES = (*probe.STAGES, "batch")


@dataclass(frozen=True)
class Subject:
    """The training records of one artifact, and how they are read."""

    features: Mapping[str, Feature]
    described: artifacts.Described
    shards: tuple[RecordFile, ...]
    settings: Input
    seed: int
    record_id: str

    def training(self) -> tf.data.Dataset:
        """Returns what a trainer reads."""
        return self._reader().training(self.shards)

    def until(self, stage: str) -> tf.data.Dataset:
        """Returns the pipeline up to a stage; all but the last give (records, next to nothing)."""
        return self.training() if stage == STAGES[-1] else probe.until(self._reader(), self.shards, stage)

    def spec(self) -> dict[str, Any]:
        """Returns the columns that are parsed, the label among them."""
        return self._reader().spec()

    def _reader(self) -> Reader:
        return Reader(
            features=self.features,
            label=self.described.label,
            label_number=self.described.label_number(),
            settings=self.settings,
            seed=self.seed,
            classes=len(self.described.classes),
            label_type=self.described.label_type,
            record_id=self.record_id,
        )


def of(task: Task, artifact: Path, settings: Input, seed: int, fitted: Any = None) -> Subject:
    """Returns the training records of an artifact as the task reads them, with what Transform fitted if it needs it."""
    return Subject(
        features=assign.features(records.assigned(task, artifact), fitted, settings, manifest.read(artifact)),
        described=artifacts.describe(artifact, settings, task.label),
        shards=tuple(artifacts.shards(artifact, "train")),
        settings=settings,
        seed=seed,
        record_id=artifacts.record_id(artifact),
    )
