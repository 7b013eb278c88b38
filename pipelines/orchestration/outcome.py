"""What happened to a node in a run."""

from dataclasses import dataclass


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
