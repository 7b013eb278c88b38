"""Which stage of the pipeline costs what: the same records read up to each stage, on the clock of the process.

    read ─► parse ─► decode ─► augment        a stage's cost is the difference to the one before it

    read      serialized records in the order of an epoch
    parse     … and their columns
    decode    … and what is in them, for images the part that is shown
    augment   … and varied

A stage hands over a count and next to no data. What is asked for during training holds a megabyte for shuffling and
one pool: it stays small beside the budget.
"""

import dataclasses
import io
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from PIL import Image

from components import diagnosis
from components import features as modalities
from components.diagnosis import Demand, Remedy, Stage
from components.features import Feature
from components.features.image import ImageFeature
from components.ingest.images import storage_format as stored
from components.input_pipeline import budget, held
from components.input_pipeline.reader import Reader
from components.input_pipeline.sharding import RecordFile
from components.input_pipeline.shards import Shards
from components.input_pipeline.source import Source
from components.settings.ingest import Ingest
from components.settings.input import Augmentation

STAGES = ("read", "parse", "decode", "augment")
_SMALLER = 1.5  # images must be so many times as large as they would be stored, or it is not worth a try
_SUBSAMPLING = "4:2:0"
_SECONDS = 0.4
# What is left when nothing is varied but which part of a image is shown: that is part of decoding.
_VARIED = ("flip_vertical", "brightness", "contrast", "saturation", "hue", "erase", "mixup", "cutmix")
_as_is: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert


def until(reader: Reader, shards: Sequence[RecordFile], stage: str) -> tf.data.Dataset:
    """Returns the pipeline up to a stage, without end: the number of records, and a little of what was made of them."""
    if stage == "decode":
        reader = dataclasses.replace(reader, features=_unvaried(reader.features))
    stored = Shards.of(shards)
    plan = budget.plan(reader.settings, stored.data, reader.features.values())
    source = held.where_planned(stored, plan)
    exact = reader.settings.order == "exact"
    data = tf.data.Dataset.counter()
    data = data.flat_map(_as_is(lambda epoch: source.epoch(reader.seed + epoch, plan, exact=exact, drop=False)))
    data = data.prefetch(1)
    if stage == STAGES[0]:
        data = data.map(_as_is(lambda pool: _told(pool, [pool])))
    else:
        data = data.map(_as_is(lambda pool: _work(reader, stage, source, pool)), plan.parallel)
    return data.prefetch(plan.prefetch).with_options(_options(plan.parallel))


def explain(
    reader: Reader, shards: Sequence[RecordFile], waiting: float, rate: float, seconds: float = _SECONDS
) -> str:
    """Returns why a device waits, in a sentence; stages and remedies are measured on the records themselves.

    Args:
        reader: of the training.
        shards: what it reads.
        waiting: fraction of the time in which the device waited.
        rate: samples a second that it got.
        seconds: that each stage is measured for.
    """
    if waiting < diagnosis.BOUND:
        return diagnosis.verdict(waiting)
    small = reader.settings.model_copy(update={"shuffle_mb": 1, "prefetch": 1, "parallel": 1, "cache": "none"})
    alone = dataclasses.replace(reader, settings=small)
    stages = costs(alone, shards, seconds)
    data = Shards.of(shards).data
    cached = budget.cache_bytes(data, reader.features.values()) < 0.5 * reader.settings.ram_mb * (1 << 20)
    demand = Demand(rate / (1 - min(waiting, 0.99)), rate, budget.cores())
    found = diagnosis.remedies(
        stages,
        demand,
        fits_in_memory=cached and reader.settings.cache == "none",
        measured=_stored_smaller(alone, shards, stages, seconds),
    )
    return diagnosis.verdict(waiting, stages, found)


def costs(reader: Reader, shards: Sequence[RecordFile], seconds: float = _SECONDS) -> tuple[Stage, ...]:
    """Returns what each stage adds to the one before it, in CPU-µs a record."""
    wanted = STAGES if reader.settings.augment else STAGES[:-1]
    found = [_cost(iter(until(reader, shards, stage)), seconds) for stage in wanted]
    return tuple(Stage(name, cost - before) for name, cost, before in zip(wanted, found, [0.0, *found], strict=False))


def unvaried(augmentation: Augmentation) -> Augmentation:
    """Returns what shows the same part of a image, and changes nothing else about it."""
    crop = {"crop": "none"} if augmentation.crop == "shift" else {}
    changed: Augmentation = augmentation.model_copy(update=dict.fromkeys(_VARIED, 0.0) | crop)
    return changed


def _unvaried(features: Mapping[str, Feature]) -> dict[str, Feature]:
    return {
        key: dataclasses.replace(feature, augmentation=unvaried(feature.augmentation))
        if isinstance(feature, ImageFeature)
        else feature
        for key, feature in features.items()
    }


def _cost(parts: Iterator[Any], seconds: float) -> float:
    for _ in range(2):  # what is traced, and what was made meanwhile
        next(parts)
    records, cpu, begun = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() < begun + seconds:
        records += int(next(parts)[0])
    return 1e6 * (time.process_time() - cpu) / records


def _stored_smaller(
    reader: Reader, shards: Sequence[RecordFile], stages: Sequence[Stage], seconds: float
) -> tuple[Remedy, ...]:
    """Tries what `ingest.store` would gain, on a batch of the records."""
    images = [(key, feature) for key, feature in reader.features.items() if isinstance(feature, ImageFeature)]
    if not images:
        return ()
    (key, feature), how = images[0], Ingest()
    held = list(itertools.islice(_contents(key, shards), reader.settings.batch_size))
    drawn = [_drawn(content, how) for content in held]
    if any(small is None for small in drawn):
        return ()
    work = tf.function(feature.augmented)
    as_they_are, small = (_work_cost(work, contents, seconds) for contents in (held, drawn))
    total = sum(max(0.0, stage.cpu_us) for stage in stages)
    return (Remedy(f"store at {how.store_side} px", total / max(1.0, total - (as_they_are - small))),)


def _contents(key: str, shards: Sequence[RecordFile]) -> Iterator[bytes]:
    for record in tf.data.TFRecordDataset([str(file.path) for file in shards], shards[0].compression):
        yield from tf.train.Example.FromString(record.numpy()).features.feature[key].bytes_list.value


def _drawn(content: bytes, how: Ingest) -> bytes | None:
    with Image.open(io.BytesIO(content)) as image:
        if min(image.size) < _SMALLER * how.store_side:
            return None
        small: bytes = stored.as_jpeg(
            stored.resize(image.convert("RGB"), how.store_side), how.store_quality, _SUBSAMPLING
        )
        return small


def _work_cost(work: Callable[..., tf.Tensor], contents: Sequence[bytes | None], seconds: float) -> float:
    given, seeds = tf.constant(contents), tf.stack([tf.range(len(contents), dtype=tf.int64)] * 2, axis=1)
    work(given, seeds)
    rounds, cpu, begun = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() < begun + seconds:
        work(given, seeds)
        rounds += 1
    return 1e6 * (time.process_time() - cpu) / rounds / len(contents)


def _work(reader: Reader, stage: str, source: Source, pool: tf.Tensor) -> tuple[tf.Tensor, ...]:
    columns, ids = source.parse(pool, reader.spec(), reader.record_id)
    if stage == "parse":
        return _told(pool, tf.nest.flatten(columns, expand_composites=True))
    seeds = tf.stack([ids, ids], axis=1)
    values = [_value(reader, key, feature, columns, seeds) for key, feature in reader.features.items()]
    return _told(pool, tf.nest.flatten(values, expand_composites=True))


def _value(reader: Reader, key: str, feature: Feature, columns: Mapping[str, Any], seeds: tf.Tensor) -> Any:
    held = modalities.stored(columns, key, feature)
    return feature.augmented(held, seeds) if reader.settings.augment else feature.decode(held)


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
