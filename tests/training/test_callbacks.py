"""The Trainer's report about its input: on the progress line during training, and in the history afterwards."""

from typing import Any

import pytest

from components import progress
from components.progress import Progress
from components.training.callbacks import InputTimer, ProgressCallback

CAUSE = "input-bound 90 %: decoding is the limit; use 4 cores"


class FakeMeter:
    """A meter with given waiting times."""

    def __init__(self, *seconds: float) -> None:
        """Takes one time per epoch; the time before each epoch is 0."""
        self._answers = [each for waited in seconds for each in (0.0, waited)]

    def take(self) -> float:
        """Returns the next time."""
        return self._answers.pop(0)


def train(monkeypatch: pytest.MonkeyPatch, *waited: float) -> tuple[InputTimer, list[Progress], list[float]]:
    """Trains epochs of ten seconds, each evaluated for five; returns timer, progress and the arguments of diagnose."""
    reported: list[Progress] = []
    diagnosed: list[float] = []
    now = [0.0]
    monkeypatch.setattr("components.training.callbacks.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(progress, "_listeners", [reported.append])

    def diagnose(waiting: float, rate: float) -> str:
        diagnosed.extend([waiting, rate])
        return CAUSE

    meter: Any = FakeMeter(*waited)
    timer = InputTimer(meter, 500, diagnose)
    callback = ProgressCallback(len(waited), 50, 500, timer)
    for epoch in range(len(waited)):
        timer.on_epoch_begin(epoch)
        callback.on_epoch_begin(epoch)
        now[0] += 10
        callback.on_train_batch_end(9, {"loss": 0.5})
        timer.on_test_begin()
        now[0] += 5
    return timer, reported, diagnosed


def test_waiting_for_input_is_shown_in_the_next_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause is diagnosed once; the percentage is measured in every epoch."""
    timer, reported, diagnosed = train(monkeypatch, 9.0, 2.0, 0.1)

    assert [each.note for each in reported] == [
        "epoch 1/3  loss 0.500",
        "epoch 2/3  loss 0.500  input-bound 90 %: decoding is the limit; use 4 cores",
        "epoch 3/3  loss 0.500  input-bound 20 %: decoding is the limit; use 4 cores",
    ]
    assert diagnosed == [0.9, 50.0]
    assert timer.to_dict()["verdict"] == "input-bound 37 %: decoding is the limit; use 4 cores"


def test_a_fast_input_is_not_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress line has no note; the history has the percentage."""
    timer, reported, diagnosed = train(monkeypatch, 0.1, 0.1)

    assert [each.note for each in reported] == ["epoch 1/2  loss 0.500", "epoch 2/2  loss 0.500"]
    assert diagnosed == []
    assert timer.to_dict()["verdict"] == "not input-bound: the device waits 1 % of the time"


def test_a_short_wait_is_not_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagnosis takes about two seconds: it starts when all epochs together have waited as long."""
    assert train(monkeypatch, 0.9, 0.9)[2] == []
    assert train(monkeypatch, 0.9, 0.9, 0.9)[2] == [0.09, 50.0]
    verdict = train(monkeypatch, 0.9, 0.9)[0].to_dict()["verdict"]
    assert verdict == "the device waits 1.8 s over all epochs: too short to find the cause"


def test_the_rate_of_training_leaves_evaluation_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress line divides the samples of all epochs by the time of training steps."""
    _, reported, _ = train(monkeypatch, 0.1, 0.1)

    assert [(each.done, each.seconds) for each in reported] == [(500, 10.0), (1000, 20.0)]
