"""Whether a warm start loses to a cold start: two models of the same data, on the test records of the newest span.

    train from the live model's weights ─┐
    train from random weights ───────────┴─► both predict the same records ─► warm start, unless it is worse by more
                                                                              than 0.01, and than chance explains

The comparison has the rule of the Evaluator, with the cold start in place of the baseline model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from components.ingest.survey.spans import Span
from components.storage.location import Location
from pipelines.config import RunConfig
from pipelines.operate import newest_span
from pipelines.operate.start import NONE, Start
from pipelines.orchestration import graph

if TYPE_CHECKING:
    from components.evaluation.by_span import SpanPair

LEAST_RECORDS = 8  # fewer test records say nothing about two models, however different they are
_LEAST_DROP = 0.01  # that matters; evaluate.max_drop is what a new model may lose, and may be large for a reason


@dataclass(frozen=True)
class ColdCheck:
    """A warm start and a cold start on the newest span; the ledger has it as it is."""

    metric: str
    records: int
    warm: float
    cold: float
    drop: float  # by which the warm start is worse; below 0: better
    allowed: float

    @property
    def is_lost(self) -> bool:
        """Whether the warm start is worse by more than is allowed."""
        return self.drop > self.allowed


def is_reached(config: RunConfig, last: str | None) -> bool:
    """Whether a call that stops after a node has a model to check; None: it goes to the end."""
    known = graph.nodes(config.settings)
    return not last or "Trainer" in {(found := graph.find(last, known).id), *graph.before(found, known)}


def compare(config: RunConfig, span: Span, models: Sequence[Location]) -> ColdCheck | None:
    """Returns the check; None if there is nothing to compare on. Raises ValueError if a model cannot predict.

    Args:
        config: the pipeline, after both trainings.
        span: the newest span.
        models: folders of the Model artifacts: warm start, cold start.
    """
    found = newest_span.pair(config, span, models)
    return judge(found) if found else None


def judge(found: "SpanPair") -> ColdCheck | None:
    """Returns the check of two models; None with too few test records."""
    from components.evaluation import comparison
    from components.evaluation.metrics import CONFIDENCE

    score = found.score
    if score.records < LEAST_RECORDS:
        return None
    kind = "class" if score.metric == "accuracy" else "quantity"
    allowed = comparison.allowed_drop(kind, found.paired, _LEAST_DROP, CONFIDENCE)
    warm, cold = score.values
    return ColdCheck(score.metric, score.records, warm, cold, -comparison.change(kind, found.paired), allowed)


def decided(start: Start, check: ColdCheck | None, why_not: str = "") -> Start:
    """Returns what the tick goes on with, and why.

    Args:
        start: the warm start.
        check: the comparison; None if there is none.
        why_not: why there is none.
    """
    if check is None:
        return replace(start, is_checked=False, text=f"warm start kept: the newest span was not compared: {why_not}")
    on = f"on {check.records:,} test records of the newest span"
    if check.is_lost:
        text = (
            f"cold start: {check.metric} {check.cold:.4f}, warm start {check.warm:.4f} {on}: lower by "
            f"{check.drop:.4f}, expected at most {check.allowed:.4f}"
        )
        return Start(NONE, text)
    text = f"warm start kept: {check.metric} {check.warm:.4f}, cold start {check.cold:.4f} {on}"
    return replace(start, is_checked=False, text=text)
