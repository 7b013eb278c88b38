"""What each section of the page shows."""

from dataclasses import replace
from typing import Any

import pytest

from pipelines.orchestration.outcome import NodeFacts
from pipelines.report import sections
from pipelines.report.facts import RunFacts
from pipelines.report.sections import Badge, Balance, ClassRow, Tile


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Badge("Blessed & pushed", "ran")),
        ({"model_path": None}, Badge("Blessed", "ran")),
        ({"blessed": False, "exit_code": 3}, Badge("Not blessed", "warning")),
        ({"blessed": None}, Badge("Finished", "cached")),
        ({"blessed": None, "exit_code": 4}, Badge("Failed", "failed")),
        ({"exit_code": 1}, Badge("Failed", "failed")),
        ({"exit_code": 143}, Badge("Cancelled", "warning")),
        ({"blessed": False, "nodes": (NodeFacts("Pusher", "failed", 1.0, ""),)}, Badge("Failed", "failed")),
    ],
)
def test_badge(facts: RunFacts, changes: dict[str, Any], expected: Badge) -> None:
    """The badge says how the run ended."""
    assert sections.badge(replace(facts, **changes)) == expected


def test_few_classes(facts: RunFacts) -> None:
    """A few classes keep their order; a class missing from a split has 0 records there."""
    table = sections.balance(replace(facts, class_counts={"eval": {"b": 4}, "train": {"b": 1, "a": 3}}))

    assert table == Balance(
        splits=("train", "eval"),
        totals=(4, 4),
        rows=(ClassRow("b", (1, 4), (0.25, 1.0)), ClassRow("a", (3, 0), (0.75, 0.0))),
        left=0,
        left_records=0,
        largest=ClassRow("b", (1, 4), (0.25, 1.0)),
        smallest=ClassRow("a", (3, 0), (0.75, 0.0)),
    )


def test_confused_pairs(facts: RunFacts) -> None:
    """The most frequent confusions come first."""
    confused = replace(facts, confusion=((9, 1, 0), (3, 7, 1), (0, 0, 5)))

    assert sections.confused_pairs(confused) == [("1", "0", 3, 11), ("0", "1", 1, 10), ("1", "2", 1, 11)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"metrics": {"trivial_accuracy": 0.4}}, Tile("trivial accuracy", "0.4000", "always answering 0")),
        ({"metrics": {"trivial_rmse": 2.5}, "classes": ()}, Tile("trivial rmse", "2.500", "always answering the mean")),
    ],
)
def test_trivial_model(facts: RunFacts, changes: dict[str, Any], expected: Tile) -> None:
    """The tile of the trivial model says what it answers."""
    assert sections.tiles(replace(facts, **changes))[0] == expected


def test_tiles(facts: RunFacts) -> None:
    """Metrics with their thresholds, records by split, quarantined records."""
    assert sections.tiles(facts) == [
        Tile("accuracy", "0.9000", "at least 0.6", True),
        Tile("macro f1", "0.8900"),
        Tile("records", "90", "train\N{NO-BREAK SPACE}60, eval\N{NO-BREAK SPACE}30"),
        Tile("quarantined", "1"),
    ]
