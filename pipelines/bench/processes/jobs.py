"""Measurement jobs: each one runs in a fresh worker process, so nothing of an earlier job is in its memory.

    MeasureJob ─► worker process: input_worker.measure ─► MeasureResult: record facts, figures per variant and round

The variants of one job take turns round by round, so a machine that is busy for a while slows all of them equally.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pydantic

from components.errors import PenstockError
from components.ingest.pool import WorkerDied, WorkerProcess
from pipelines import log
from pipelines.bench import locate
from pipelines.bench.measurements import MeasureJob, MeasureResult, TrainResult
from pipelines.config import RunConfig

_TAIL = 2000  # characters of a dead process's output in the error message


def make(config: RunConfig, records: str | None, rounds: int, seconds: float) -> MeasureJob:
    """Returns a job, still without variants, that reads the given or the newest records as the task does."""
    artifact = locate.examples(config, records)
    graph = locate.transform_graph(config, artifact)
    return MeasureJob(config.task.name, config.settings, artifact, graph, rounds=rounds, seconds=seconds)


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def run(job: MeasureJob) -> MeasureResult:
    """Measures the input pipeline in a fresh process; raises what it raises, and PenstockError if the process dies."""
    return pydantic.TypeAdapter(MeasureResult).validate_python(_called(f"{__name__}:measure_here", job))


def run_training(job: MeasureJob) -> TrainResult:
    """Measures training in a fresh process, in the same way."""
    return pydantic.TypeAdapter(TrainResult).validate_python(_called(f"{__name__}:train_here", job))


def _called(function: str, job: MeasureJob) -> Any:
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(WorkerProcess()) as process:
        output = Path(folder, "output.log")
        try:
            (measured,) = process.call(function, job, output)
        except WorkerDied:
            last = output.read_text(errors="replace")[-_TAIL:].strip() if output.exists() else ""
            raise PenstockError(
                "the process that measures died, possibly out of memory; "
                f"free some memory, or lower input.batch_size or input.ram_mb\n{last}".rstrip()
            ) from None
        return measured


def measure_here(job: MeasureJob, output: Path) -> Iterator[dict[str, Any]]:
    """What the worker process runs: yields the result as a dictionary."""
    with log.diverted(output):  # the messages of TensorFlow and its libraries
        from pipelines.bench.processes import input_worker  # TensorFlow, for the worker process only

        yield asdict(input_worker.measure(job))


def train_here(job: MeasureJob, output: Path) -> Iterator[dict[str, Any]]:
    """The same for training."""
    with log.diverted(output):
        from pipelines.bench.processes import train_worker

        yield asdict(train_worker.measure(job))
