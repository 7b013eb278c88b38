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
    return max(map(part_of_threshold, compared.get("measures", ())), default=None)


def part_of_threshold(measure: Mapping[str, Any]) -> float:
    """Returns how near a comparison came to its threshold: 0 if nothing changed, above 1 for a finding.

    Of a threshold that allows no change, such as that of new classes: 1 + the change if there is one.
    """
    unchanged = 1.0 if measure["id"] == "records:span" else 0.0  # a ratio of numbers of records
    value, threshold = (measure[name] - unchanged for name in ("value", "threshold"))
    if threshold > 0:
        return max(0.0, value / threshold)
    return 1 + value if value > threshold else 0.0
