"""What a retraining starts from, and which classes changed since."""

import pytest

from pipelines.operate import start, ticks
from pipelines.operate.ticks import Attempt
from tests.operate.daily_data import Data

FRESH = "weights start from random values"


def test_every_second_training_is_checked(data: Data) -> None:
    """The ledger counts, from the last check or cold start; a tick that has trained before is not checked again."""
    chosen, ledger, starts = data.config("train.cold_check=2"), ticks.of(data.config()), []
    for day, has_base in enumerate([False, True, True, True, False, True]):
        starts.append(start.choose(chosen, ledger, None))
        check = {"metric": "accuracy"} if starts[-1].is_checked else {}
        ledger.add(
            Attempt(
                span=f"2026-11-0{day + 1}", place=day, key="", outcome="pushed", reason="", exit_code=0,
                started=f"{day}", ended=f"{day}", has_base=has_base, has_trained=True, check=check,
                warm_start="live" if has_base else "none",
            )
        )  # fmt: skip

    assert [each.is_checked for each in starts] == [False, False, True, False, True, False]
    assert {each.warm_start for each in starts} == {"live"}
    assert starts[2].text == (
        "warm start from the live model, if there is one; a cold start is trained, too, and compared "
        "(train.cold_check = 2)"
    )
    assert not start.choose(chosen, ledger, ledger.trained("2026-11-03", "")).is_checked
    assert start.choose(data.config("train.cold_check=2", "train.cold_every=2"), ledger, None).warm_start == "none"
    assert not start.choose(data.config("train.cold_check=1", "train.warm_start=none"), ledger, None).is_checked


def test_every_third_training_is_cold(data: Data) -> None:
    """The ledger counts; a tick that has trained before starts from the same as then."""
    chosen, ledger, starts = data.config("train.cold_every=3"), ticks.of(data.config()), []
    for day, has_base in enumerate([False, True, True, False]):
        starts.append(start.choose(chosen, ledger, None))
        ledger.add(
            Attempt(
                span=f"2026-11-0{day + 1}", place=day, key="", outcome="pushed", reason="", exit_code=0, started="",
                ended=f"{day}", has_base=has_base, has_trained=True, warm_start=starts[-1].warm_start,
            )
        )  # fmt: skip

    assert [each.warm_start for each in starts] == ["live", "live", "live", "none"]
    assert starts[-1].text == "cold start: 3 trainings since the last one (train.cold_every = 3)"
    assert start.choose(chosen, ledger, ledger.trained("2026-11-04", "")).warm_start == "none"
    assert start.choose(chosen, ledger, None).warm_start == "live"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (["a", "b"], ["b", "a"], ""),
        ([], ["a"], ""),
        (["a", "b"], ["a", "b", "d", "c"], f"classes: new: c, d ({FRESH})"),
        (["a", "b"], ["a"], "classes: gone: b (weights dropped)"),
        (["a"], ["c"], f"classes: new: c ({FRESH}); gone: a (weights dropped); a renamed class counts as both"),
    ],
)
def test_changed_classes_are_named(old: list[str], new: list[str], text: str) -> None:
    """Order does not matter: warm start finds them by name."""
    assert start.changed_classes(old, new) == text
