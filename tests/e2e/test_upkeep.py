"""What keeps a pipeline going for a year, on real runs."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def plan_of(pipeline: Any, *flags: str) -> dict[str, str]:
    """Returns what the next run would do with each node."""
    actions: dict[str, str] = pipeline.run(*flags, "--dry-run").actions()
    return actions


def test_the_next_run_has_the_same_plan(table_run: Any, restored: Any, quick_table: tuple[str, ...]) -> None:
    """B14: after gc, nothing is due that was not before, the run before last is due again, and a rollback works."""
    # The first model stays until the second, whose baseline it is, is not the previous one any more.
    runs = [(*quick_table, "--set", f"train.seed={seed}") for seed in (2, 3, 4)]
    with restored(table_run.root):
        done = [table_run.run(*flags) for flags in runs]
        before = plan_of(table_run, *runs[-1])
        place = ("tabular", "--root", str(table_run.root))
        collected = table_run.server.run("gc", *place, "--keep", "1", "--set", "gc.keep_versions=1")
        every = table_run.server.run("gc", "--root", str(table_run.root.parent), "--keep", "1")
        after, first = plan_of(table_run, *runs[-1]), table_run.run(*quick_table, "--dry-run")
        rollback = table_run.server.run("models", "rollback", *place, "--reason", "worse")

    assert [each.code for each in (*done, collected, every, rollback)] == [0] * 6, collected.output + every.output
    assert (set(before.values()), after) == ({"up to date", "looked up"}, before)
    assert str(Path("Trainer", "model")) in collected.output
    assert (first.actions()["Ingest"], first.actions()["Trainer"]) == ("up to date", "runs")
    assert first.reason("Trainer") == "its output was deleted"
    assert "version 3" in rollback.output
