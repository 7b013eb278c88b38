"""The ledger of ticks knows what is done, and what models descend from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.errors import PenstockError
from components.storage import durable
from pipelines import config as run_config
from pipelines.operate import ticks
from pipelines.operate.ticks import Attempt, Outcome, TickLedger

FIRST = Attempt(
    span="2026-11-14", place=20771, key="k", outcome="pushed", reason="blessed and pushed as version 7", exit_code=0,
    started="2026-11-15T06:00:00.000+00:00", ended="2026-11-15T06:01:00.000+00:00",
    spans=(("2026-11-13", 1), ("2026-11-14", None)), missing=("2026-11-12",), warm_start="live", start="warm start",
    has_base=True, has_trained=True, version="7", classes=("ant", "bee"), metrics={"accuracy": 0.5},
)  # fmt: skip


def later(minutes: int, **values: Any) -> Attempt:
    """Returns an attempt like the first one, which started and ended some minutes after it."""
    times = {name: f"2026-11-15T06:{minutes + more:02d}:00.000+00:00" for name, more in (("started", 0), ("ended", 1))}
    return replace(FIRST, **{**times, **values})


def written(folder: Path, *attempts: Attempt) -> TickLedger:
    """Writes attempts, one after the other, each by a ledger of its own; returns one that has read them."""
    for attempt in attempts:
        TickLedger(folder).add(attempt)
    return TickLedger(folder)


def test_an_attempt_is_read_as_it_was_written(tmp_path: Path) -> None:
    """One file per span, and nothing else in the folder, not even what a killed writer left."""
    (tmp_path / "ticks").mkdir()
    durable.temporary_of(tmp_path / "ticks" / "7.json").touch()
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
    assert ledger.of_span("2026-11-14") == [
        replace(late, ended=later(1).ended, repeated=1), later(2), later(3),
    ]  # fmt: skip


def test_the_attempt_that_a_served_model_is_from(tmp_path: Path) -> None:
    """By its versions; the newest of them."""
    ledger = written(
        tmp_path,
        FIRST,
        later(1, version="8"),
        later(2, span="2026-11-12", place=20769, version="9"),
        later(3, span="2026-11-15", place=20772, outcome="not better", version="8"),
    )

    assert (ledger.served({"7", "8"}), ledger.served({"9"}), ledger.served({"10"})) == (
        later(1, version="8"), later(2, span="2026-11-12", place=20769, version="9"), None,
    )  # fmt: skip


def test_a_correction_that_was_withdrawn_is_due(tmp_path: Path) -> None:
    """The newest verdict of the span decides: the model of another content is live."""
    ledger = written(tmp_path, FIRST, later(1, key="corrected", version="8"), later(2, outcome="failed"))

    assert (ledger.done("2026-11-14", "k"), ledger.done("2026-11-14", "corrected")) == (
        None, later(1, key="corrected", version="8"),
    )  # fmt: skip


def test_two_calls_do_not_erase_each_others_attempts(tmp_path: Path) -> None:
    """Each reads the file again before it adds one; scores follow later."""
    first, second = TickLedger(tmp_path), TickLedger(tmp_path)
    first.add(FIRST)
    second.add(later(1, key="other", started="2026-11-15T06:00:30.000+00:00"))
    first.add_scores(FIRST, {"window": {"records": 3.0}})

    assert [each.scores for each in second.of_span("2026-11-14")] == [{"window": {"records": 3.0}}, {}]


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
        TickLedger(tmp_path).of_span("7")


def test_a_setting_with_its_default_is_not_in_the_key(tmp_path: Path) -> None:
    """A version of Penstock that has more settings makes no tick due; a chosen value does."""
    settings = ["evaluate.max_drop=0.02", "ingest.window=last 3"]
    chosen = run_config.make("tabular", data=str(tmp_path), root=str(tmp_path / "root"), flags=settings)

    assert ticks.chosen(chosen, ["ingest", "evaluate"]) == {"ingest": {}, "evaluate": {"max_drop": 0.02}}
