"""Raw data to predictions on Beam, or in the threads of this process: divide, predict, add up the reports.

files of rows ─► divide ─┐
units of files ──────────┴─► predict: one file and one report per unit ─► close.py: manifest, ledger, final names
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.direct.direct_runner import DirectRunner

from components import beam_workers, progress
from components.inference import model, predict_unit, units
from components.inference.data import Data
from components.inference.units import PredictFiles, PredictJob, RowFile, Unit, UnitReport
from components.progress import Progress

_CORES = os.cpu_count() or 1


def run(data: Data, job: PredictJob, make_pipeline: Callable[[], beam.Pipeline]) -> list[UnitReport]:
    """Predicts the data, and returns the reports of all work units in the order of the data."""
    todo = units.of_data(data, job.work)
    pipeline = make_pipeline()
    if _is_local(pipeline):
        _predict_here(todo, job, data.files if data.columns is None else 0)
    else:
        _predict_on(pipeline, todo, job)
    return units.collect(job.work, units.expected(todo, job.work))


def _is_local(pipeline: beam.Pipeline) -> bool:
    """Whether the pipeline would run in this process, without workers."""
    workers = pipeline.options.view_as(DirectOptions).direct_num_workers
    return isinstance(pipeline.runner, DirectRunner) and workers == 1


def _predict_here(todo: Sequence[RowFile] | Sequence[PredictFiles], job: PredictJob, total: int) -> None:
    """Predicts in one thread per core: TensorFlow, Arrow and reading release Python's lock."""
    model.load(job.model, job.digest, job.reading)
    done = 0
    stop = threading.Event()

    def one(unit: Unit) -> int:
        return predict_unit.predict(unit, job, stop)

    with ThreadPoolExecutor(_CORES) as threads:
        try:
            divided = threads.map(lambda each: _units_of(each, job), todo)
            running = [threads.submit(one, unit) for found in divided for unit in found]
            for finished in as_completed(running):
                done += finished.result()
                progress.report(Progress(done, total or None))
        except BaseException:
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _units_of(each: RowFile | PredictFiles, job: PredictJob) -> Sequence[Unit]:
    return units.divide(each, job) if isinstance(each, RowFile) else [each]


def _predict_on(pipeline: beam.Pipeline, todo: Sequence[RowFile] | Sequence[PredictFiles], job: PredictJob) -> None:
    """Predicts on Beam's workers; work crosses a shuffle, so that an engine distributes it, and records never do."""
    beam_workers.prepare()
    with pipeline:
        work = pipeline | "Work" >> beam.Create(list(todo), reshuffle=False) | "DistributeFiles" >> beam.Reshuffle()
        if any(isinstance(each, RowFile) for each in todo):
            work = work | "Divide" >> beam.ParDo(_Divide(job)) | "DistributeRanges" >> beam.Reshuffle()
        predicted = work | "Predict" >> beam.ParDo(_Predict(job))
        _ = predicted | "Predicted" >> beam.Reshuffle() | "Count" >> beam.ParDo(_CountRecords())


class _Divide(beam.DoFn):
    """Divides files of rows."""

    def __init__(self, job: PredictJob) -> None:
        self._job = job

    def process(self, file: RowFile) -> list[Any]:
        return list(units.divide(file, self._job))


class _Predict(beam.DoFn):
    """Predicts work units; the process keeps the model for the next one."""

    def __init__(self, job: PredictJob) -> None:
        self._job = job

    def process(self, unit: Unit) -> tuple[int]:
        return (predict_unit.predict(unit, self._job),)


class _CountRecords(beam.DoFn):
    """Adds up the records of the predicted units in a metric of the job."""

    def __init__(self) -> None:
        self._records = beam.metrics.Metrics.counter("predict", "records")

    def process(self, records: int) -> tuple[()]:
        self._records.inc(records)
        return ()
