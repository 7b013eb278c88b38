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

from components import beam_workers, progress
from components.beam_workers import CountRecords
from components.inference import model, predict_unit, units
from components.inference.data import Data
from components.inference.units import PredictFiles, PredictJob, RowFile, Unit, UnitReport
from components.progress import Progress

_CORES = os.cpu_count() or 1


def run(data: Data, job: PredictJob, make_pipeline: Callable[[], beam.Pipeline]) -> list[UnitReport]:
    """Predicts the data, and returns the reports of all work units in the order of the data."""
    todo = units.of_data(data, job.work)
    pipeline = make_pipeline()
    if beam_workers.runs_here(pipeline):
        _predict_here(todo, job, data.files if data.columns is None else 0)
    else:
        _predict_on(pipeline, todo, job)
    return units.collect(job.work, units.expected(todo, job.work))


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


def _units_of(each: Any, job: PredictJob) -> list[Any]:  # Beam 2.62 cannot compare unions of types
    return list(units.divide(each, job)) if isinstance(each, RowFile) else [each]


def _predict(unit: Any, job: PredictJob) -> int:
    """Predicts a work unit; the process keeps the model for the next one."""
    return predict_unit.predict(unit, job)


def _predict_on(pipeline: beam.Pipeline, todo: Sequence[RowFile] | Sequence[PredictFiles], job: PredictJob) -> None:
    """Predicts on Beam's workers; work crosses a shuffle, so that an engine distributes it, and records never do."""
    beam_workers.prepare()
    with pipeline:
        work = pipeline | "Work" >> beam.Create(list(todo), reshuffle=False) | "DistributeFiles" >> beam.Reshuffle()
        if any(isinstance(each, RowFile) for each in todo):
            work = work | "Divide" >> beam.FlatMap(_units_of, job) | "DistributeRanges" >> beam.Reshuffle()
        predicted = work | "Predict" >> beam.Map(_predict, job)
        _ = predicted | "Predicted" >> beam.Reshuffle() | "Count" >> beam.ParDo(CountRecords("predict"))
