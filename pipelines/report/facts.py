"""The facts of a run: plain values, gathered once, shown by the summary table and by the report page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.errors import GateStopped
from components.records.ledger import Entry
from components.records.quarantine import Quarantined
from pipelines.orchestration.outcome import NodeFacts
from pipelines.report.lineage import LineageStep


@dataclass(frozen=True)
class SampleImage:
    """An image as it is stored in a record."""

    label: str
    content: bytes  # an image file


@dataclass(frozen=True)
class Threshold:
    """A metric threshold, and whether the model reached it."""

    metric: str
    value: float
    threshold: str  # such as "at least 0.6"
    passed: bool


@dataclass(frozen=True)
class SliceFacts:
    """The metric of the first threshold on one slice, and how it compares with the baseline model."""

    column: str
    value: str
    metric: float
    records: int
    change: float | None = None  # against the baseline model, if there is one
    allowed: float | None = None  # drop
    limit: str = ""  # why it is allowed: a setting, or chance
    passed: bool | None = None


@dataclass(frozen=True)
class TrainingFacts:
    """How the Trainer ran: one value per epoch, and for the whole training."""

    samples_per_second: tuple[float, ...] = ()
    waiting: tuple[float, ...] = ()  # fraction of training that waited for input
    learning_rate: tuple[float, ...] = ()
    details: tuple[tuple[str, str], ...] = ()  # name, value: "batch size", "64, chosen from the data"


@dataclass(frozen=True)
class RunFacts:
    """Everything that the summary table and the report page show."""

    pipeline: str
    task: str
    started: str  # ISO 8601, UTC
    seconds: float
    outcome: str  # one sentence: "blessed and pushed as version 3"
    exit_code: int
    nodes: tuple[NodeFacts, ...] = ()
    ledger: tuple[Entry, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()  # the first ones; the ledger has the total
    quarantine_reasons: Mapping[str, int] = field(default_factory=dict)  # the most frequent ones -> records
    quarantine_path: str | None = None
    label: str = ""  # column and kind: "price: regression"
    notes: tuple[str, ...] = ()  # what was decided about the data
    warnings: tuple[str, ...] = ()  # such as duplicates with different labels
    records: Mapping[str, int] = field(default_factory=dict)  # by split
    class_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # split -> class -> records
    drift: Mapping[str, Any] = field(default_factory=dict)  # how the new spans were compared; of the Gate's verdict
    samples: tuple[SampleImage, ...] = ()
    curves: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)  # metric -> split -> per epoch
    best_epoch: int | None = None  # counted from 0
    warm_start: tuple[tuple[str, str], ...] = ()  # weight, and whether it was copied, mapped or fresh
    start: str = ""  # which of a warm and a cold start was better, if both were trained
    trained: str = ""  # folder of the model
    samples_per_second: float | None = None  # of training
    training: TrainingFacts | None = None
    tensorboard: str | None = None  # folder of its logs
    metrics: Mapping[str, float] = field(default_factory=dict)
    thresholds: tuple[Threshold, ...] = ()
    slices: tuple[SliceFacts, ...] = ()
    compared: SliceFacts | None = None  # the same for all test records, if there is a baseline model
    gate_problems: tuple[str, ...] = ()  # why the Gate stopped the run, but for the comparison of the new spans
    lineage: tuple[LineageStep, ...] = ()
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()  # rows: true class, columns: predicted class
    blessed: bool | None = None
    model_path: str | None = None
    model_version: str | None = None
    live_version: int | None = None  # of the pipeline, which may be another one
    proof: Mapping[str, Any] = field(default_factory=dict)  # proof.json: whether the export predicts as training does
    card: Mapping[str, Any] = field(default_factory=dict)  # the model card; empty without a model
    run: str = ""  # its id

    @property
    def reason(self) -> str:
        """How the run ended, in a few words: the outcome, or what the Gate found."""
        if self.exit_code != GateStopped.exit_code:
            return self.outcome
        found = [each["id"] for each in self.drift.get("measures", ()) if each["open"]]
        return next(iter(self.gate_problems), "") or ", ".join(found) or self.outcome
