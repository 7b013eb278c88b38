"""Measure the input pipeline: CPU time per stage, and the time a loop waits for batches.

    read ─► parse ─► decode ─► augment        a stage's cost is the difference to the stage before it

    read      serialized records in the order of an epoch
    parse     … and their columns
    decode    … and their values, for images only the crop
    augment   … and their random variations

A stage returns a count and almost no data. `explain`, which runs during training, uses a shuffle buffer of one megabyte
and one pool, so it stays small compared with the budget.
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
from components.input_pipeline import budget, stages
from components.input_pipeline.sharding import RecordFile
from components.input_pipeline.stages import Reader
from components.input_pipeline.stores import MemoryShards, Rows, Shards
from components.records import image_format
from components.settings.ingest import Ingest
from components.settings.input import Augmentation

STAGES = ("read", "parse", "decode", "augment")
_SMALLER = 1.5  # images must be this much larger than `ingest.store_side`, or storing them smaller is not tried
_SECONDS = 0.4
# Augmentation apart from the crop, which is part of decoding.
_VARIED = ("flip_vertical", "brightness", "contrast", "saturation", "hue", "erase", "mixup", "cutmix")
_graph: Callable[[Any], Any] = tf.autograph.experimental.do_not_convert


class WaitMeter:
    """Adds up the time that a loop waits for batches."""

    def __init__(self) -> None:
        """Starts at zero."""
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Adds what a loop has measured."""
        self._seconds += seconds

    def take(self) -> float:
        """Returns the seconds since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


def timed(get_next: Callable[[], Any]) -> tuple[Any, tf.Tensor]:
    """Returns the next batch inside a compiled function, where Python cannot measure, and the seconds waited for it.

    Clocks in a map of the dataset take 0.1 ms per batch: a fifth of a step of a table.
    """
    # Control edges, so that TensorFlow neither reorders the clocks nor uses the batch before the second one.
    requested = tf.timestamp()
    with tf.control_dependencies([requested]):
        batch = get_next()
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        seconds = tf.timestamp() - requested
    with tf.control_dependencies([seconds]):
        return tf.nest.map_structure(tf.identity, batch, expand_composites=True), seconds


def until(reader: Reader, shards: Sequence[RecordFile], stage: str) -> tf.data.Dataset:
    """Returns the pipeline up to a stage, endless: the number of records, and a little of each tensor."""
    if stage == "decode":
        reader = dataclasses.replace(reader, features=_without_augmentation(reader.features))
    stored = Shards.of(shards)
    sizes = budget.allocate(reader.settings, stored.size, reader.features.values())
    store = stages.in_memory(stored, sizes)
    exact = reader.settings.order == "exact"
    data = tf.data.Dataset.counter()
    data = data.flat_map(_graph(lambda epoch: store.epoch(reader.seed + epoch, sizes, exact=exact, drop=False)))
    data = data.prefetch(1)
    if stage == STAGES[0]:
        data = data.map(_graph(lambda pool: _sample(pool, [pool])))
    else:
        data = data.map(_graph(lambda pool: _work(reader, stage, store, pool)), sizes.parallel)
    settings = reader.settings.model_copy(update={"autotune": False})
    return data.prefetch(sizes.prefetch).with_options(stages.options(settings, sizes))


def explain(
    reader: Reader, shards: Sequence[RecordFile], waiting: float, rate: float, seconds: float = _SECONDS
) -> str:
    """Returns why a device waits, in one sentence; stages and remedies are measured on the records themselves.

    Args:
        reader: of the training.
        shards: what it reads.
        waiting: fraction of the time in which the device waited.
        rate: records per second that the device got.
        seconds: duration of each measurement.
    """
    if waiting < diagnosis.BOUND:
        return diagnosis.verdict(waiting)
    small = reader.settings.model_copy(update={"shuffle_mb": 1, "prefetch": 1, "parallel": 1, "cache": "none"})
    alone = dataclasses.replace(reader, settings=small)
    measured = costs(alone, shards, seconds)
    cached = budget.cache_bytes(Shards.of(shards).size, reader.features.values())
    found = diagnosis.remedies(
        measured,
        Demand(rate / (1 - min(waiting, 0.99)), rate, budget.cores()),
        fits_in_memory=reader.settings.cache == "none" and cached < 0.5 * reader.settings.ram_mb * (1 << 20),
        measured=_stored_smaller(alone, shards, measured, seconds),
    )
    return diagnosis.verdict(waiting, measured, found)


def costs(reader: Reader, shards: Sequence[RecordFile], seconds: float = _SECONDS) -> tuple[Stage, ...]:
    """Returns what each stage adds to the stage before it, in CPU-µs per record."""
    wanted = STAGES if reader.settings.augment else STAGES[:-1]
    found = [_cost(iter(until(reader, shards, stage)), seconds) for stage in wanted]
    return diagnosis.differences(dict(zip(wanted, found, strict=True)))


def only_crop(augmentation: Augmentation) -> Augmentation:
    """Returns an augmentation with the same crop and nothing else."""
    crop = {"crop": "none"} if augmentation.crop == "shift" else {}
    changed: Augmentation = augmentation.model_copy(update=dict.fromkeys(_VARIED, 0.0) | crop)
    return changed


def _without_augmentation(features: Mapping[str, Feature]) -> dict[str, Feature]:
    return {
        key: dataclasses.replace(feature, augmentation=only_crop(feature.augmentation))
        if isinstance(feature, ImageFeature)
        else feature
        for key, feature in features.items()
    }


def _cost(elements: Iterator[Any], seconds: float) -> float:
    for _ in range(2):  # tracing, and elements made meanwhile
        next(elements)
    return _cpu_us(lambda: int(next(elements)[0]), seconds)


def _cpu_us(work: Callable[[], int], seconds: float) -> float:
    """Returns the CPU time per record of work that returns how many records it did."""
    records, cpu, begun = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() < begun + seconds:
        records += work()
    return 1e6 * (time.process_time() - cpu) / records


def _stored_smaller(
    reader: Reader, shards: Sequence[RecordFile], measured: Sequence[Stage], seconds: float
) -> tuple[Remedy, ...]:
    """Measures what `ingest.store` would gain, on one batch of the records."""
    images = [(key, feature) for key, feature in reader.features.items() if isinstance(feature, ImageFeature)]
    if not images:
        return ()
    (key, feature), settings = images[0], Ingest()
    stored = list(itertools.islice(_contents(key, shards), reader.settings.batch_size))
    smaller = [_smaller(content, settings) for content in stored]
    if None in smaller:
        return ()
    before, after = (_augment_cost(feature, contents, seconds) for contents in (stored, smaller))
    total = sum(max(0.0, stage.cpu_us) for stage in measured)
    return (Remedy(f"store at {settings.store_side} px", total / max(1.0, total - (before - after))),)


def _contents(key: str, shards: Sequence[RecordFile]) -> Iterator[bytes]:
    for record in tf.data.TFRecordDataset([str(file.path) for file in shards], shards[0].compression):
        yield from tf.train.Example.FromString(record.numpy()).features.feature[key].bytes_list.value


def _smaller(content: bytes, settings: Ingest) -> bytes | None:
    with Image.open(io.BytesIO(content)) as image:
        if min(image.size) < _SMALLER * settings.store_side:
            return None
        reduced = image_format.resize(image.convert("RGB"), settings.store_side)
        return image_format.as_jpeg(reduced, settings.store_quality)


def _augment_cost(feature: ImageFeature, contents: Sequence[bytes | None], seconds: float) -> float:
    batch, seeds = tf.constant(contents), tf.stack([tf.range(len(contents), dtype=tf.int64)] * 2, axis=1)
    augmented = tf.function(feature.augmented)

    def work() -> int:
        augmented(batch, seeds)
        return len(contents)

    work()
    return _cpu_us(work, seconds)


def _work(reader: Reader, stage: str, store: Shards | MemoryShards | Rows, pool: tf.Tensor) -> tuple[tf.Tensor, ...]:
    columns, ids = store.parse(pool, reader.spec(), reader.record_id)
    if stage == "parse":
        return _sample(pool, tf.nest.flatten(columns, expand_composites=True))
    seeds = tf.stack([ids, ids], axis=1)
    values = [_value(reader, key, feature, columns, seeds) for key, feature in reader.features.items()]
    return _sample(pool, tf.nest.flatten(values, expand_composites=True))


def _value(reader: Reader, key: str, feature: Feature, columns: Mapping[str, Any], seeds: tf.Tensor) -> Any:
    stored = modalities.stored(columns, key, feature)
    return feature.augmented(stored, seeds) if reader.settings.augment else feature.decode(stored)


def _sample(pool: tf.Tensor, tensors: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
    """Returns the number of records in a pool, and the first element of each tensor.

    TensorFlow does not compute a tensor that is never used, even with control edges.
    """
    firsts = [tf.reshape(each, [-1])[:1] for each in tensors]
    return tf.shape(pool)[0], *(tf.strings.length(each) if each.dtype == tf.string else each for each in firsts)
