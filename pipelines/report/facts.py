"""What a run has to tell: plain values, gathered once, shown by the summary and by the page."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.orchestration.outcome import NodeFacts


@dataclass(frozen=True)
class LedgerRow:
    """Records into a node, out of it, and set aside by it."""

    node: str
    records_in: int
    records_out: int
    quarantined: int


@dataclass(frozen=True)
class QuarantinedFile:
    """A source file that was set aside, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class SampleImage:
    """A record as training sees it: PNG or JPEG bytes."""

    label: str
    content: bytes


@dataclass(frozen=True)
class Bar:
    """A bar the model had to pass."""

    metric: str
    value: float
    bar: str  # such as "at least 0.6"
    passed: bool


@dataclass(frozen=True)
class RunFacts:
    """Everything the summary table and the report page show."""

    pipeline: str
    task: str
    started: str  # ISO 8601, UTC
    seconds: float
    outcome: str  # one sentence: "blessed and pushed as version 3"
    exit_code: int
    nodes: tuple[NodeFacts, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    quarantined: tuple[QuarantinedFile, ...] = ()  # the first ones; the ledger has the total
    quarantine_path: str | None = None
    warnings: tuple[str, ...] = ()  # such as duplicates under two labels
    records: Mapping[str, int] = field(default_factory=dict)  # by split
    class_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # split -> class -> records
    samples: tuple[SampleImage, ...] = ()
    curves: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)  # metric -> split -> by epoch
    best_epoch: int | None = None
    input_verdict: str = ""  # whether training waited for its input, and why
    metrics: Mapping[str, float] = field(default_factory=dict)
    bars: tuple[Bar, ...] = ()
    slices: tuple[tuple[str, str, float, int], ...] = ()  # column, value, metric of the first bar, records
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()  # rows: true class, columns: predicted
    blessed: bool | None = None
    model_path: str | None = None
    model_version: str | None = None
