"""What differs between two runs: settings, data, records, metrics, durations, and which nodes ran."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.watch.history import Run


@dataclass(frozen=True)
class RunDifference:
    """One value of two runs; None where a run does not have it."""

    group: str  # run, settings, records, metrics, nodes
    name: str
    first: Any
    second: Any

    @property
    def is_equal(self) -> bool:
        """Whether the runs have the same value."""
        return bool(self.first == self.second)

    @property
    def change(self) -> float | None:
        """The second value minus the first, if both are numbers."""
        numbers = [each for each in (self.first, self.second) if isinstance(each, int | float)]
        return numbers[1] - numbers[0] if len(numbers) == 2 else None  # noqa: PLR2004


def compare(first: Run, second: Run) -> list[RunDifference]:
    """Returns the values of two runs side by side, those that are equal too."""
    return [
        RunDifference(group, name, one, two)
        for (group, ours), theirs in zip(_values(first).items(), _values(second).values(), strict=True)
        for name, one, two in _paired(ours, theirs)
    ]


def _values(run: Run) -> dict[str, Mapping[str, Any]]:
    return {
        "run": {
            "state": run.state, "exit code": run.exit_code, "started": run.started, "seconds": round(run.seconds, 1),
            "data": run.data, "version": run.version,
        },
        "settings": dict(_flat(run.settings)),
        "records": run.records,
        "metrics": run.metrics,
        "nodes": {node.node: node.state for node in run.nodes},
        "seconds": {node.node: round(node.seconds, 1) for node in run.nodes if node.state != "cached"},
    }  # fmt: skip


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _paired(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys((*ours, *theirs)):
        yield name, ours.get(name), theirs.get(name)
