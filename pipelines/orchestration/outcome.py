"""What happened to a node in a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NodeFacts:
    """State, time and records of one node in one run."""

    id: str
    state: str  # "ran", "cached", "failed", "skipped"
    seconds: float
    reason: str  # why it ran, or why it is up to date
    records: int | None = None
    samples_per_second: float | None = None  # of training: the samples of all epochs / the time of training steps
    note: str = ""  # about its result, such as "3 texts cut"
    failures: tuple[str, ...] = ()  # of the tries that failed and were repeated: why


def largest_drift(compared: Mapping[str, Any]) -> float | None:
    """Returns how near the Gate's comparisons came to their thresholds: 1 is at one, above 1 is a finding.

    Args:
        compared: what the Gate found, as `RunFacts.drift`; empty if it compared nothing.
    """
    ratios = [_ratio(each["value"], each["threshold"]) for each in compared.get("measures", ())]
    return max(ratios, default=None)


def _ratio(value: float, threshold: float) -> float:
    """Returns value / threshold; of a threshold of zero, such as that of new classes, 1 + value if it is passed."""
    if threshold > 0:
        return max(0.0, value / threshold)
    return 1 + value if value > threshold else 0.0
