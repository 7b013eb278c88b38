"""A retraining compares itself with what is live: newer models, rollbacks, withdrawn models."""

from collections.abc import Callable
from typing import Any

import pytest

from components.errors import Locked, Skipped
from pipelines import run
from pipelines.config import RunConfig
from pipelines.operate import retrain, ticks
from pipelines.operate.retrain import RetrainRequest
from pipelines.orchestration.outcome import NodeFacts
from pipelines.orchestration.root import lock
from pipelines.report.facts import RunFacts
from pipelines.run import RunResult
from tests.operate.daily_data import Data


def test_a_call_that_waited_decides_again(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: while it waited for the root, another call has served a newer span."""
    data.write("2026-11-03", "2026-11-04")

    def waits(*_: Any, settled: Callable[[], RunConfig], **__: Any) -> None:
        data.record(day="2026-11-04", version="9")
        settled()

    monkeypatch.setattr(run, "run", waits)
    with pytest.raises(Skipped, match=r"version 9 was trained up to span 2026-11-04"):
        data.retrain()
    assert data.attempts() == [("skipped", 10)]


def test_a_call_that_waited_for_its_span_decides_again(data: Data) -> None:
    """C7: another call has served a newer span in the meantime."""

    def arrives(_: float) -> None:
        data.write("2026-11-03", "2026-11-04")
        data.record(day="2026-11-04", version="9")

    with pytest.raises(Skipped, match=r"version 9 was trained up to span 2026-11-04"):
        data.retrain("ingest.late=wait", pause=arrives)


def test_the_live_model_decides_what_is_older(data: Data) -> None:
    """Not the newest one that was ever pushed, which was rolled back; and without a ledger, too."""
    data.write("2026-11-03", "2026-11-04")
    data.move("push", 1, "2026-11-02")
    data.move("push", 2, "2026-11-04")
    with pytest.raises(Skipped, match=r"version 2 was trained up to span 2026-11-04"):
        data.retrain()
    data.move("rollback", 3, "2026-11-02", source="1")
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain()


def test_a_verdict_against_a_version_that_was_rolled_back(data: Data) -> None:
    """The tick is due: its model may be better than the one that is live now."""
    data.write("2026-11-03")
    data.move("push", 1, "2026-11-01")
    data.move("push", 2, "2026-11-02")
    serving = data.home / "root" / "serving"
    data.record(outcome="not better", exit_code=3, version="", against=str(serving / "2"))
    assert data.retrain() == 3
    data.move("rollback", 3, "2026-11-01", source="1")
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain()


@pytest.mark.parametrize(("version", "is_pushed"), [(None, False), ("2", True)], ids=["not pushed", "rolled back"])
def test_a_withdrawn_model_is_an_outcome_of_its_own(data: Data, version: str | None, is_pushed: bool) -> None:
    """Its tick is done, and serves nothing."""
    data.write("2026-11-03")
    data.move("push", 1, "2026-11-01")
    if is_pushed:
        data.move("push", 2, "2026-11-02")
        data.move("rollback", 3, "2026-11-01", source="1")
    chosen, request = data.config(), RetrainRequest("2026-11-03")
    tick = retrain._Tick(
        chosen, request, ticks.of(chosen), retrain._resolve(chosen, request, request.span), "", data.say
    )
    nodes = (NodeFacts("Pusher", "ran", 1.0, ""),)
    attempt = tick.record_result(
        RunResult(0, RunFacts("tabular", "tabular", "", 1.0, "blessed", 0, nodes, model_version=version))
    )

    assert (attempt.outcome, ticks.of(chosen).served({"2"})) == ("withdrawn", None)
    assert tick._last_line(attempt) == (
        "span 2026-11-03: its model was withdrawn, and is not pushed (penstock models promote brings it back); "
        f"version {3 if is_pushed else 1} is live"
    )


def test_a_withdrawn_model_stays_withdrawn_until_another_version_is_live(data: Data) -> None:
    """A promotion may have brought it back: the tick is decided again."""
    data.write("2026-11-03")
    data.move("push", 1, "2026-11-01")
    data.record(outcome="withdrawn", version="", against=str(data.home / "root" / "serving" / "1"))
    assert data.retrain() == 0
    assert "its model was withdrawn" in data.said[-1]
    data.move("promote", 2, "2026-11-02")
    with lock.hold(data.config().notes, wait=False), pytest.raises(Locked):
        data.retrain()
