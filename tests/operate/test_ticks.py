"""The ledger of ticks knows what is done, and what models descend from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.errors import PenstockError
from pipelines.operate.ticks import Attempt, Outcome, TickLedger

FIRST = Attempt(
    span="2026-11-14", place=20771, key="k", outcome="pushed", reason="blessed and pushed as version 7", exit_code=0,
    started="2026-11-15T06:00:00.000+00:00", ended="2026-11-15T06:01:00.000+00:00",
    spans=(("2026-11-13", 1), ("2026-11-14", None)), missing=("2026-11-12",), warm_start="live", start="warm start",
    has_base=True, has_trained=True, version="7", classes=("ant", "bee"), metrics={"accuracy": 0.5},
)  # fmt: skip


def later(minutes: int, **values: Any) -> Attempt:
    """Returns an attempt like the first one, which ended some minutes after it."""
    return replace(FIRST, ended=f"2026-11-15T06:{minutes + 1:02d}:00.000+00:00", **values)


def written(folder: Path, *attempts: Attempt) -> TickLedger:
    """Writes attempts, one after the other, each by a ledger of its own; returns one that has read them."""
    for attempt in attempts:
        TickLedger(folder).add(attempt)
    return TickLedger(folder)


def test_an_attempt_is_read_as_it_was_written(tmp_path: Path) -> None:
    """One file per span, and nothing else in the folder."""
    ledger = written(tmp_path / "ticks", FIRST)

    assert ledger.done("2026-11-14", "k") == FIRST
    assert [file.name for file in (tmp_path / "ticks").iterdir()] == ["2026-11-14.json"]


@pytest.mark.parametrize(
    ("outcome", "is_done"),
    [
        ("pushed", True), ("up to date", True), ("not better", True),
        ("gate stopped", False), ("late", False), ("skipped", False), ("failed", False),
    ],
)  # fmt: skip
def test_a_tick_is_done_if_it_has_a_verdict(tmp_path: Path, outcome: Outcome, is_done: bool) -> None:
    """Anything else is tried again; so is other content, or another span."""
    ledger = written(tmp_path, replace(FIRST, outcome=outcome))

    assert (ledger.done("2026-11-14", "k") is not None) == is_done
    assert (ledger.done("2026-11-14", "other"), ledger.done("2026-11-13", "k")) == (None, None)


def test_a_repeated_outcome_is_counted(tmp_path: Path) -> None:
    """A scheduler that calls every minute does not fill the disk; a training is never merged with another."""
    late = later(0, outcome="late", has_trained=False)
    ledger = written(tmp_path, late, later(1, outcome="late", has_trained=False), later(2), later(3))

    assert ledger.done("2026-11-14", "k") == later(3)
    assert TickLedger(tmp_path)._ticks["2026-11-14"] == [
        replace(late, ended=later(1).ended, repeated=1), later(2), later(3),
    ]  # fmt: skip


def test_the_newest_span_that_was_pushed(tmp_path: Path) -> None:
    """By the calendar, not by the time of the training; of a corrected span the last attempt."""
    ledger = written(
        tmp_path,
        FIRST,
        later(1, version="8"),
        later(2, span="2026-11-12", place=20769, version="9"),
        later(3, span="2026-11-15", place=20772, outcome="not better", version=""),
    )

    assert ledger.newest_served() == later(1, version="8")
    assert TickLedger(tmp_path / "none").newest_served() is None


def test_trainings_since_the_last_cold_start_are_counted(tmp_path: Path) -> None:
    """By time, over all spans; attempts that trained nothing do not count."""
    ledger = written(
        tmp_path,
        FIRST,
        later(1, span="2026-11-15", has_base=False),
        later(2, span="2026-11-16"),
        later(3, span="2026-11-17", has_trained=False),
        later(4, span="2026-11-10"),
    )

    assert (ledger.trained_since_cold_start(), TickLedger(tmp_path / "none").trained_since_cold_start()) == (3, 0)


@pytest.mark.parametrize("content", ["", "[{}]", "{", '[{"span": 1}]'])
def test_a_damaged_ledger_is_named(tmp_path: Path, content: str) -> None:
    """With what to do."""
    (tmp_path / "7.json").write_text(content)
    with pytest.raises(
        PenstockError, match=r"7\.json: the ledger of this tick cannot be read.*; restore it, or delete"
    ):
        TickLedger(tmp_path)
