"""What is measured: the batches that training would read, the same up to each stage, and the tutorial way.

    read      serialized records in the order of an epoch
    parse     … and their columns
    decode    … and what is in them, for pictures the part that is shown
    augment   … and varied
    batch     … and cut into batches, padded, mixed, handed over: all that training reads

A stage's cost is the difference to the one before it. What comes before `batch` hands over a count and next to no data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components import features as modalities
from components import parts, roles
from components.features import Feature
from components.ingest import account
from components.input_pipeline import Reader, RecordFile, artifacts, budget
from components.input_pipeline.shards import Shards
from components.settings import Augmentation, Input
from components.tasks import Task
from pipelines.config import HOME

STAGES = ("read", "parse", "decode", "augment", "batch")
_as_is: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert
# What is left when nothing is varied but which part of a picture is shown: that is part of decoding.
_VARIED = ("flip_vertical", "brightness", "contrast", "saturation", "hue", "erase", "mixup", "cutmix")


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
        reader = Reader(
            features=self.features,
            label=self.described.label,
            label_number=self.described.label_number(),
            settings=self.settings,
            seed=self.seed,
            classes=len(self.described.classes),
            label_type=self.described.label_type,
            record_id=self.record_id,
        )
        return reader.training(self.shards)

    def until(self, stage: str) -> tf.data.Dataset:
        """Returns the pipeline up to a stage; all but the last give (records, next to nothing)."""
        if stage == STAGES[-1]:
            return self.training()
        source = Shards.of(self.shards)
        plan = budget.plan(self.settings, source.data, self.features.values())
        exact = self.settings.order == "exact"
        data = tf.data.Dataset.counter()
        data = data.flat_map(_as_is(lambda epoch: source.epoch(self.seed + epoch, plan, exact=exact, drop=False)))
        data = data.prefetch(1)
        if stage != STAGES[0]:
            work = _as_is(lambda pool: self._work(stage, source, pool))
            data = data.map(work, plan.parallel)
        else:
            data = data.map(_as_is(lambda pool: _told(pool, [pool])))
        return data.prefetch(plan.prefetch).with_options(_options(plan.parallel))

    def spec(self) -> dict[str, Any]:
        """Returns the columns that are parsed, the label among them."""
        columns = modalities.spec(self.features)
        if self.described.label:
            columns[self.described.label] = tf.io.FixedLenFeature([], tf.dtypes.as_dtype(self.described.label_type))
        return columns

    def _work(self, stage: str, source: Shards, pool: tf.Tensor) -> tuple[tf.Tensor, ...]:
        columns, ids = source.parse(pool, self.spec(), self.record_id)
        if stage == "parse":
            return _told(pool, tf.nest.flatten(columns, expand_composites=True))
        seeds = tf.stack([ids, ids], axis=1)
        values = [self._value(key, feature, columns, seeds) for key, feature in self.features.items()]
        return _told(pool, tf.nest.flatten(values, expand_composites=True))

    def _value(self, key: str, feature: Feature, columns: Mapping[str, Any], seeds: tf.Tensor) -> Any:
        stored = modalities.stored(columns, key, feature)
        return feature.augmented(stored, seeds) if self.settings.augment else feature.decode(stored)


def of(task: Task, artifact: Path, settings: Input, seed: int, fitted: Any = None) -> Subject:
    """Returns the training records of an artifact as the task reads them, with what Transform fitted if it needs it."""
    own = artifact / "schema.pbtxt"
    schema = text_format.Parse((own if own.exists() else HOME / task.schema).read_bytes(), schema_pb2.Schema())
    assigned = parts.assign(task.parts, roles.read(schema, task.label))
    return Subject(
        features=parts.features(assigned, fitted, settings, account.read(artifact)),
        described=artifacts.describe(artifact, settings, task.label),
        shards=tuple(artifacts.shards(artifact, "train")),
        settings=settings,
        seed=seed,
        record_id=artifacts.record_id(artifact),
    )


def unvaried(settings: Input) -> Input:
    """Returns settings that show the same part of a picture, and change nothing else about it."""
    crop = {"crop": "none"} if settings.augmentation.crop == "shift" else {}
    augmentation: Augmentation = settings.augmentation.model_copy(update=dict.fromkeys(_VARIED, 0.0) | crop)
    changed: Input = settings.model_copy(update={"augmentation": augmentation})
    return changed


def _told(pool: tf.Tensor, made: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
    """Returns how many records a pool holds, and a little of each tensor that was made of it.

    What nobody looks at, TensorFlow does not compute, in spite of control edges.
    """
    little = [tf.reshape(each, [-1])[:1] for each in made]
    return tf.shape(pool)[0], *(tf.strings.length(each) if each.dtype == tf.string else each for each in little)


def _options(parallel: int) -> tf.data.Options:
    """Returns the Reader's own."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    options.threading.private_threadpool_size = parallel
    options.threading.max_intra_op_parallelism = 1
    return options
