"""The worker process: measures the variants of a job in turn."""

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from components import tasks
from components.errors import BadInput
from components.features.image import ImageFeature
from components.input_pipeline import budget
from pipelines.bench.measurements import STAGES, TUTORIAL, MeasureJob, Measurement, MeasureResult, RecordFacts, Variant
from pipelines.bench.processes import meter, reencode, training_data, tutorial
from pipelines.bench.processes.training_data import TrainingData

_MB = 1 << 20


def measure(job: MeasureJob) -> MeasureResult:
    """Measures every variant in every round; raises BadInput if a variant cannot read the records."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measure(job, Path(folder))
    except tf.errors.OpError as error:
        raise BadInput(f"{job.artifact}: cannot be read: {error.message}") from None


def turns(variants: int, number: int) -> list[int]:
    """Returns the order of the variants in a round; each round starts with another one, so none is always first."""
    return [(index + number) % variants for index in range(variants)]


def _measure(job: MeasureJob, folder: Path) -> MeasureResult:
    graph = fitted(job)
    data = [_data(job, variant, folder / str(index), graph) for index, variant in enumerate(job.variants)]
    measured: list[list[Measurement]] = [[] for _ in job.variants]
    for number in range(job.rounds):
        for index in turns(len(job.variants), number):
            measured[index].append(_round(job, job.variants[index].kind, data[index]))
    return MeasureResult(facts(data[0]), tuple(map(tuple, measured)))


def _round(job: MeasureJob, kind: str, data: TrainingData) -> Measurement:
    # Built again in each round: a pipeline that waits for its turn would go on filling its buffers.
    feed = meter.Feed(lambda: _batches(kind, data), (lambda batch: int(batch[0])) if kind in STAGES[:-1] else None)
    feed.run(job.warm_up)
    interval = feed.run(job.seconds)
    waits = meter.quantiles(interval.waits)
    measured = Measurement(
        rate=interval.rate,
        cpu_us=interval.cpu_us,
        others=interval.others,
        first_batch=feed.first_batch_seconds,
        wait_p50=waits[50],
        wait_p99=waits[99],
        peak_mb=meter.peak_mb(),
    )
    rate = job.device_rate or job.device_share * interval.rate
    if not rate:
        return measured
    seen = feed.simulate(rate, job.seconds)
    return replace(measured, utilisation=seen.utilisation, stall_p50=seen.stall_p50, stall_p99=seen.stall_p99)


def _batches(kind: str, data: TrainingData) -> Iterable[Any]:
    return tutorial.batches(data) if kind == TUTORIAL else data.until(kind)


def _data(job: MeasureJob, variant: Variant, folder: Path, graph: Any) -> TrainingData:
    task, seed = tasks.get(job.task), job.settings.train.seed
    data = training_data.load(task, job.artifact, variant.settings, seed, graph)
    if variant.ingest is None:
        return data
    reencode.write(job.artifact, folder, _image_column(data), variant.ingest)
    return training_data.load(task, folder, data.reader.settings, seed, graph)  # the same batch size


def fitted(job: MeasureJob) -> Any:
    """Returns Transform's output, for tasks that read records with it."""
    if job.graph is None:
        return None
    from components.fitting.fitted import Fitted  # TFX's libraries, which image tasks do not need

    return Fitted(str(job.graph), job.settings.transform)


def facts(data: TrainingData) -> RecordFacts:
    """Returns facts about the records."""
    size = budget.DataSize(sum(file.records for file in data.shards), sum(file.bytes for file in data.shards))
    return RecordFacts(
        records=size.records,
        bytes=size.bytes,
        decoders=tuple(sorted({getattr(each, "decoder", "tensorflow") for each in data.reader.features.values()})),
        cache_mb=budget.cache_bytes(size, data.reader.features.values()) / _MB,
        images=_image_column(data),
        batch_size=data.reader.settings.batch_size,
    )


def _image_column(data: TrainingData) -> str:
    return next((key for key, feature in data.reader.features.items() if isinstance(feature, ImageFeature)), "")
