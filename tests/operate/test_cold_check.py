"""Which of a warm and a cold start goes on; a real tick with both is in tests/e2e/test_retrain_choices.py."""

from pathlib import Path

import pytest

from components.errors import SettingsError
from components.evaluation.by_span import SpanPair, SpanScore
from components.evaluation.comparison import Paired, of_class, of_quantity
from pipelines import config
from pipelines.operate import cold_check
from pipelines.operate.cold_check import ColdCheck
from pipelines.operate.start import Start

WARM = Start("live", "warm start from the live model", is_checked=True)


def classes(both: int, only_warm: int, only_cold: int) -> SpanPair:
    """Returns two models with as many records that both, or one of them, get right."""
    records = [
        *[of_class(candidate=True, baseline=True)] * both,
        *[of_class(candidate=True, baseline=False)] * only_warm,
        *[of_class(candidate=False, baseline=True)] * only_cold,
    ]
    paired = Paired()
    for each in records:
        paired = paired.added(each)
    count = max(1, len(records))
    values = (both + only_warm) / count, (both + only_cold) / count
    return SpanPair(SpanScore("accuracy", len(records), values), paired)


@pytest.mark.parametrize(
    ("found", "is_lost"),
    [
        (classes(both=80, only_warm=0, only_cold=20), True),
        (classes(both=100, only_warm=0, only_cold=0), False),  # equal
        (classes(both=80, only_warm=20, only_cold=0), False),  # better
        (classes(both=96, only_warm=1, only_cold=3), False),  # what chance explains
        (classes(both=995_000, only_warm=0, only_cold=5_000), False),  # not by chance, and too little to matter
    ],
)
def test_a_warm_start_is_kept_unless_it_clearly_loses(found: SpanPair, is_lost: bool) -> None:
    """On the same records, by what is above chance and matters."""
    check = cold_check.judge(found)

    assert check is not None
    assert check.is_lost == is_lost


@pytest.mark.parametrize(("shift", "is_lost"), [(3.0, True), (0.001, False)])
def test_quantities_are_compared_by_squared_errors(shift: float, is_lost: bool) -> None:
    """As the Evaluator compares them."""
    paired = Paired()
    for number in range(50):
        paired = paired.added(of_quantity(number, number + shift + number % 2, number + number % 3))
    check = cold_check.judge(SpanPair(SpanScore("r2", 50, (0.5, 0.9)), paired))

    assert check is not None
    assert check.is_lost == is_lost


def test_with_few_records_the_warm_start_is_kept() -> None:
    """By chance alone, one of two models is far better on a few records. The text says why."""
    paired = Paired()
    for number in range(7):
        paired = paired.added(of_quantity(number, number + 5 + number % 2, number))

    assert cold_check.judge(SpanPair(SpanScore("r2", 7, (-3.0, 1.0)), paired)) is None
    assert cold_check.judge(classes(both=0, only_warm=0, only_cold=7)) is None
    assert cold_check.judge(classes(0, 0, 0)) is None
    assert cold_check.decided(WARM, None, "it has no test records") == Start(
        "live", "warm start kept: the newest span was not compared: it has no test records"
    )


def test_the_decision_is_said() -> None:
    """With both values; it is in the ledger and in the report."""
    lost = ColdCheck("accuracy", 1200, 0.75, 0.9, 0.15, 0.02)
    kept = ColdCheck("accuracy", 1200, 0.9, 0.9, 0.0, 0.01)

    assert cold_check.decided(WARM, lost) == Start(
        "none",
        "cold start: accuracy 0.9000, warm start 0.7500 on 1,200 test records of the newest span: lower by 0.1500, "
        "expected at most 0.0200",
    )
    assert cold_check.decided(WARM, kept) == Start(
        "live", "warm start kept: accuracy 0.9000, cold start 0.9000 on 1,200 test records of the newest span"
    )


@pytest.mark.parametrize(
    ("last", "is_reached"), [(None, True), ("trainer", True), ("Pusher", True), ("Transform", False)]
)
def test_a_call_that_stops_before_the_trainer_checks_nothing(
    tmp_path: Path, last: str | None, is_reached: bool
) -> None:
    """As the tasks of an Airflow DAG do."""
    chosen = config.make("tabular", data=str(tmp_path / "{SPAN}" / "*.csv"), root=str(tmp_path / "root"))

    assert cold_check.is_reached(chosen, last) == is_reached
    with pytest.raises(SettingsError, match="Trainr"):
        cold_check.is_reached(chosen, "Trainr")
