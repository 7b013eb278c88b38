"""What a measurement job is given, and what it returns."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from components.settings.ingest import Ingest
from components.settings.input import Input
from components.settings.tree import Settings

STAGES = ("read", "parse", "decode", "augment", "batch")  # the last one is all that training reads
TUTORIAL = "tutorial"


@dataclass(frozen=True)
class Variant:
    """One way to read the records."""

    kind: str  # a stage up to which the pipeline runs, or the tutorial code
    settings: Input
    ingest: Ingest | None = None  # images are stored again as these settings say


@dataclass(frozen=True)
class MeasureJob:
    """What a worker process measures."""

    task: str
    settings: Settings
    artifact: Path
    graph: Path | None  # Transform's output, if the task reads records with it
    variants: tuple[Variant, ...] = ()
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
    batch_size: int


@dataclass(frozen=True)
class MeasureResult:
    """What a worker process returns."""

    facts: RecordFacts
    measured: tuple[tuple[Measurement, ...], ...]  # per variant and round

    def medians(self) -> list[Measurement]:
        """Returns the median measurement of each variant."""
        return [median(rounds) for rounds in self.measured]


@dataclass(frozen=True)
class TrainMeasurement:
    """The figures of training on one device, in samples per second."""

    device: str
    input_rate: float  # alone
    model_rate: float  # alone
    rate: float  # together
    waiting: float  # fraction of the time in which the model waited for input


@dataclass(frozen=True)
class TrainResult:
    """What a worker process returns about training."""

    facts: RecordFacts
    measured: TrainMeasurement
    gpus: int  # of this machine


def median(rounds: Sequence[Measurement]) -> Measurement:
    """Returns the median of each figure."""
    values = [asdict(each) for each in rounds]
    return Measurement(**{key: statistics.median(each[key] for each in values) for key in values[0]})
