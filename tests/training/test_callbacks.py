"""The Trainer's report about its input: on the progress line during training, and in the history afterwards."""

from typing import Any

import pytest

from components import progress
from components.progress import Progress
from components.training.callbacks import InputTimer, ProgressCallback

CAUSE = "input-bound 90 %: decoding is the limit; use 4 cores"


class FakeMeter:
    """A meter that is set by hand."""

    def __init__(self) -> None:
        """Starts at zero."""
        self.seconds = 0.0

    def take(self) -> float:
        """Returns the seconds since the last call."""
        taken, self.seconds = self.seconds, 0.0
        return taken


class WatchedTraining:
    """Trains epochs of ten steps and ten seconds, each evaluated for five, and collects what is reported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, epochs: int) -> None:
        """Takes the number of epochs."""
        self.reported: list[Progress] = []
        self.diagnosed: list[float] = []
        self._now = 100.0
        monkeypatch.setattr("components.training.callbacks.time.perf_counter", lambda: self._now)
        monkeypatch.setattr(progress, "_listeners", [self.reported.append])
        self._meter = FakeMeter()
        meter: Any = self._meter
        self.timer = InputTimer(meter, 500, self._diagnose)
        self._callback = ProgressCallback(epochs, 10, 2, 50, self.timer)

    def _diagnose(self, waiting: float, rate: float) -> str:
        self.diagnosed += [waiting, rate]
        self._now += 1000  # a diagnosis takes its time, which is not part of any epoch
        return CAUSE

    def begin(self, epoch: int) -> None:
        """Begins an epoch."""
        for each in (self.timer, self._callback):
            each.on_epoch_begin(epoch)

    def steps(self, first: int, last: int, waited: float = 0.0, *, compiling: float = 0.0) -> None:
        """Trains steps of one second in one call; they waited for so many seconds in all."""
        self._callback.on_train_batch_begin(first)
        self._now += last - first + 1 + compiling
        self._meter.seconds += waited
        self._callback.on_train_batch_end(last, {"loss": 0.5})

    def evaluate(self) -> None:
        """Evaluates in two steps."""
        self.timer.on_test_begin()
        for step, seconds in enumerate((2, 3)):
            self._now += seconds
            self._callback.on_test_batch_end(step)
        self.timer.on_test_end()

    def epoch(self, number: int, waited: float) -> None:
        """Trains a whole epoch in one call."""
        self.begin(number)
        self.steps(0, 9, waited)
        self.evaluate()


def train(monkeypatch: pytest.MonkeyPatch, *waited: float) -> WatchedTraining:
    """Trains epochs that waited for so many seconds."""
    training = WatchedTraining(monkeypatch, len(waited))
    for number, seconds in enumerate(waited):
        training.epoch(number, seconds)
    return training


def test_waiting_for_input_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause is diagnosed once; the percentage is measured in every epoch."""
    done = train(monkeypatch, 9.0, 2.0, 0.1)

    assert [each.note for each in done.reported[::3]] == [
        "loss 0.500  waiting 90 %",
        "loss 0.500  waiting 20 %: decoding is the limit; use 4 cores",
        "loss 0.500  waiting 1 %: decoding is the limit; use 4 cores",
    ]
    assert done.reported[-1].note == "loss 0.500  waiting 1 %"
    assert done.diagnosed == [0.9, 50.0]
    assert done.timer.to_dict()["verdict"] == "input-bound 37 %: decoding is the limit; use 4 cores"


def test_a_fast_input_is_not_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress line and the history have the percentage only."""
    done = train(monkeypatch, 0.1, 0.1)

    assert {each.note for each in done.reported} == {"loss 0.500  waiting 1 %"}
    assert done.diagnosed == []
    assert done.timer.to_dict()["verdict"] == "not input-bound: the device waits 1 % of the time"


def test_a_short_wait_is_not_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagnosis takes about two seconds: it starts when all epochs together have waited as long."""
    assert train(monkeypatch, 0.9, 0.9).diagnosed == []
    assert train(monkeypatch, 0.9, 0.9, 0.9).diagnosed == [0.09, 50.0]
    verdict = train(monkeypatch, 0.9, 0.9).timer.to_dict()["verdict"]
    assert verdict == "the device waits 1.8 s over all epochs: too short to find the cause"


def test_the_rate_of_training_leaves_evaluation_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress line divides the samples of all epochs by the time of training steps."""
    done = train(monkeypatch, 0.1, 0.1)

    assert [(each.done, each.seconds) for each in done.reported] == [(500, 10.0)] * 3 + [(1000, 20.0)] * 3


def test_the_time_left_includes_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until an evaluation was measured, its two steps count as steps of training, of one second."""
    done = WatchedTraining(monkeypatch, 2)
    done.begin(0)
    done.steps(0, 3, 9.0)
    done.steps(4, 9)
    done.evaluate()
    done.epoch(1, 0.0)

    assert [(each.place, each.left) for each in done.reported] == [
        ("epoch 1/2  step 4/10", None),
        ("epoch 1/2  step 10/10", 10 + 2 + 2),
        ("epoch 1/2  evaluation 1/2", 10 + 2 + 2 - 2),
        ("epoch 1/2  evaluation 2/2", 10),
        ("epoch 2/2  step 10/10", 5),
        ("epoch 2/2  evaluation 1/2", 3),
        ("epoch 2/2  evaluation 2/2", 0),
    ]


def test_the_first_call_is_not_part_of_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """It compiles the step: here it takes 100 s for one step, all others one second."""
    done = WatchedTraining(monkeypatch, 1)
    done.begin(0)
    done.steps(0, 0, compiling=99.0)
    done.steps(1, 2)

    assert [each.left for each in done.reported] == [None, 7 + 2]


@pytest.mark.parametrize("evaluating", [False, True], ids=["within an epoch", "within an evaluation"])
def test_progress_continues_after_a_resume(monkeypatch: pytest.MonkeyPatch, *, evaluating: bool) -> None:
    """Rate, share of waiting and time left are those of a training that was never interrupted."""
    straight = train(monkeypatch, 4.0, 4.0)
    killed = WatchedTraining(monkeypatch, 2)
    killed.epoch(0, 4.0)
    killed.begin(1)
    killed.steps(0, 9 if evaluating else 3, 4.0)
    if evaluating:
        killed.timer.on_test_begin()
    state = killed.timer.state()
    resumed = WatchedTraining(monkeypatch, 2)
    resumed.timer.restore(state)
    resumed.begin(1)
    if not evaluating:
        resumed.steps(4, 9)
    resumed.evaluate()

    def shown(training: WatchedTraining) -> list[Any]:
        return [(each.place, each.done, each.seconds, each.left) for each in training.reported[-2:]]

    assert shown(resumed) == shown(straight)
    assert resumed.timer.to_dict() == straight.timer.to_dict()
