"""The records of an artifact, read as the trainer reads them, and read up to each stage only.

    read      serialized records in the order of an epoch
    parse     … and their columns
    decode    … and their content; for images, the crop that training uses
    augment   … and augmented
    batch     … and batched, padded, mixed, handed over: everything that training reads

The cost of a stage is its difference to the stage before it. Stages before `batch` return a count and almost no data.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.input_pipeline import Reader, RecordFile, artifacts, probe
from components.input_pipeline.budget import DataSize
from components.records import manifest
from components.settings.input import Input
from components.tasks import Task, assign
from pipelines.bench import locate
from pipelines.bench.measurements import STAGES


@dataclass(frozen=True)
class TrainingData:
    """The training records of one artifact, and how a task reads them."""

    reader: Reader
    shards: tuple[RecordFile, ...]

    def until(self, stage: str) -> tf.data.Dataset:
        """Returns the pipeline up to a stage; every stage but the last yields (number of records, almost no data)."""
        if stage == STAGES[-1]:
            return self.reader.training(self.shards)
        return probe.until(self.reader, self.shards, stage)


def load(task: Task, artifact: Path, settings: Input, seed: int, fitted: Any = None) -> TrainingData:
    """Returns the training records of an artifact; `fitted` is Transform's output for tasks that need it."""
    features = assign.features(locate.assigned(task, artifact), fitted, settings, manifest.read(artifact))
    reader = artifacts.reader(artifact, settings, seed, task.label, features)
    shards = tuple(artifacts.shards(artifact, "train"))
    size = DataSize(sum(shard.records for shard in shards), sum(shard.bytes for shard in shards))
    return TrainingData(reader.sized(size), shards)
