"""What the trainer says about its input: on the progress line while it trains, and in the history afterwards."""

import pytest

from components import progress
from components.progress import Progress
from components.training.trainer import _InputClock, _Watch

REASON = "input-bound 90 %: decoding is the limit; use 4 cores"


class Waited:
    """A meter that tells what it is told to."""

    def __init__(self, *seconds: float) -> None:
        """Takes the answers, one an epoch; what was waited before an epoch is thrown away."""
        self._answers = [each for waited in seconds for each in (0.0, waited)]

    def take(self) -> float:
        """Returns the next answer."""
        return self._answers.pop(0)


def trained(monkeypatch: pytest.MonkeyPatch, *waited: float) -> tuple[_InputClock, list[str], list[float]]:
    """Lets epochs of ten seconds pass, and returns the clock, what was on the progress line, and what was asked."""
    notes: list[str] = []
    asked: list[float] = []
    now = [0.0]
    monkeypatch.setattr("components.training.trainer.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(progress, "_listeners", [lambda told: notes.append(_note(told))])

    def explain(share: float, rate: float) -> str:
        asked.extend([share, rate])
        return REASON

    clock = _InputClock(Waited(*waited), 500, explain)  # type: ignore[arg-type]
    watch = _Watch(len(waited), 50, 500, clock)
    for epoch in range(len(waited)):
        clock.on_epoch_begin(epoch)
        watch.on_epoch_begin(epoch)
        watch.on_train_batch_end(0, {"loss": 0.5})
        now[0] += 10
        clock.on_test_begin()
    return clock, notes, asked


def _note(told: Progress) -> str:
    return told.note


def test_an_epoch_that_waited_is_explained_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is found out once, the share is taken anew in each epoch."""
    clock, notes, asked = trained(monkeypatch, 9.0, 2.0, 0.1)

    assert notes == [
        "epoch 1/3  loss 0.500",
        "epoch 2/3  loss 0.500  input-bound 90 %: decoding is the limit; use 4 cores",
        "epoch 3/3  loss 0.500  input-bound 20 %: decoding is the limit; use 4 cores",
    ]
    assert asked == [0.9, 50.0]
    assert clock.to_dict()["verdict"] == "input-bound 37 %: decoding is the limit; use 4 cores"


def test_who_never_waits_is_not_troubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on the line, nothing measured; the history says so."""
    clock, notes, asked = trained(monkeypatch, 0.1, 0.1)

    assert (notes, asked) == (["epoch 1/2  loss 0.500", "epoch 2/2  loss 0.500"], [])
    assert clock.to_dict()["verdict"] == "not input-bound: the device waits 1 % of the time"
