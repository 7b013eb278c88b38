"""Measurement jobs: each one runs in a fresh worker process, so nothing of an earlier job is in its memory.

    MeasureJob ─► spawned process: worker.measure ─► MeasureResult: record facts, measurements per variant and round

The variants of one job take turns round by round, so a machine that is busy for a while slows all of them equally.
"""

import multiprocessing
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path

from components.errors import PenstockError
from components.settings.ingest import Ingest
from components.settings.input import Input
from components.settings.transform import Transform
from pipelines.bench import locate
from pipelines.config import RunConfig

_TAIL = 2000  # characters of a dead process's output in the error message


@dataclass(frozen=True)
class Variant:
    """One way to read the records."""

    kind: str  # "training", "tutorial", a stage, or "stored": images stored as `ingest` says
    settings: Input
    ingest: Ingest | None = None


@dataclass(frozen=True)
class MeasureJob:
    """What a worker process measures."""

    task: str
    seed: int
    artifact: Path
    graph: Path | None  # Transform's output, if the task reads records with it
    transform: Transform
    variants: tuple[Variant, ...]
    rounds: int = 1
    warm_up: float = 1.0  # seconds
    seconds: float = 3.0
    device_rate: float = 0.0  # samples per second of a simulated device; 0: none
    device_share: float = 0.0  # alternatively, as a fraction of the measured rate


@dataclass(frozen=True)
class Measurement:
    """The figures of one variant in one round."""

    rate: float  # samples per second
    cpu_us: float  # per sample
    others: float  # share of the machine used by other processes
    first_batch: float  # seconds
    wait_p50: float  # seconds per batch
    wait_p99: float
    peak_mb: float
    utilisation: float = 0.0  # of the simulated device
    stall_p50: float = 0.0  # seconds per step
    stall_p99: float = 0.0


@dataclass(frozen=True)
class RecordFacts:
    """Facts about the records that were measured."""

    records: int
    bytes: int
    decoders: tuple[str, ...]
    cache_mb: float  # size of all decoded records
    images: str  # the image column, or ""


@dataclass(frozen=True)
class MeasureResult:
    """What a worker process returns."""

    facts: RecordFacts
    measured: tuple[tuple[Measurement, ...], ...]  # per variant and round

    def medians(self) -> list[Measurement]:
        """Returns the median measurement of each variant."""
        return [median(rounds) for rounds in self.measured]


def make(config: RunConfig, artifact: Path, variants: Sequence[Variant]) -> MeasureJob:
    """Returns a job that reads an artifact as the configured task does."""
    return MeasureJob(
        task=config.task.name,
        seed=config.settings.train.seed,
        artifact=artifact,
        graph=locate.transform_graph(config, artifact),
        transform=config.settings.transform,
        variants=tuple(variants),
    )


def run(job: MeasureJob) -> MeasureResult:
    """Runs a job in a fresh process; raises what it raises, and PenstockError if the process dies."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        output = Path(folder, "output.log")
        try:
            return pool.submit(_measure, job, output).result()
        except BrokenProcessPool:
            last = output.read_text(errors="replace")[-_TAIL:].strip() if output.exists() else ""
            raise PenstockError(
                "the process that measures the input pipeline died, possibly out of memory; "
                f"free some memory, or lower input.batch_size or input.ram_mb\n{last}".rstrip()
            ) from None


def median(rounds: Sequence[Measurement]) -> Measurement:
    """Returns the median of each figure."""
    values = [asdict(each) for each in rounds]
    return Measurement(**{key: statistics.median(each[key] for each in values) for key in values[0]})


def _measure(job: MeasureJob, output: Path) -> MeasureResult:
    from pipelines import log

    with log.diverted(output):  # the messages of TensorFlow and its libraries
        from pipelines.bench import worker  # TensorFlow, for the worker process only

        return worker.measure(job)
