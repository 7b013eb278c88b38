"""Which gate decided and why, and the candidate against the live model."""

from dataclasses import replace
from typing import Any

import pytest

from pipelines.orchestration.outcome import NodeFacts
from pipelines.report import retraining
from pipelines.report.facts import RunFacts, SliceFacts, Threshold
from tests.report.conftest import measure


def _nodes(**states: str) -> tuple[NodeFacts, ...]:
    return tuple(NodeFacts(name, state, 1.0, "") for name, state in states.items())


def _not_evaluated(facts: RunFacts) -> RunFacts:
    return replace(facts, thresholds=(), slices=(), blessed=None, model_version=None, compared=None)


def verdicts(facts: RunFacts) -> list[tuple[str, str]]:
    """Returns gate and verdict, in order."""
    return [(row.name, row.verdict) for row in retraining.gates(facts)]


def test_all_gates_passed(retrained: RunFacts) -> None:
    """An accepted finding passes, and is named with person, time and reason."""
    rows = retraining.gates(retrained)

    assert verdicts(retrained) == [
        ("Data: schema, splits, classes", "passed"),
        ("New spans against the live model's data", "passed, with accepted findings"),
        ("Evaluator: minimum", "passed"),
        ("Evaluator: all test records against the live model", "passed"),
        ("Evaluator: slices against the live model", "passed"),
        ("Pusher", "pushed as version 3"),
    ]
    assert rows[1].reasons == ("drift:age accepted by ana@host at 2025-11-14T09:00:00: a new tariff",)
    assert retraining.decided(rows) == "All gates passed."


def test_a_cold_start_was_better(retrained: RunFacts) -> None:
    """Both values are shown, between the data's gates and the Evaluator."""
    row = retraining.gates(replace(retrained, start="cold start: accuracy 0.9, warm start 0.7"))[2]

    assert (row.name, row.verdict) == ("Trainer: warm start against a cold start", "cold start goes on")
    assert row.reasons == ("accuracy 0.9, warm start 0.7",)


def test_drift_stopped_the_run(retrained: RunFacts) -> None:
    """The finding, by how much, its threshold and its setting; later gates were not reached."""
    drift = {**retrained.drift, "measures": [measure("drift:age", 0.3)], "accepted": []}
    nodes = _nodes(Gate="failed", Evaluator="skipped", Pusher="skipped")
    stopped = replace(_not_evaluated(retrained), drift=drift, nodes=nodes, exit_code=5)
    rows = retraining.gates(stopped)

    assert verdicts(stopped)[1:] == [
        ("New spans against the live model's data", "stopped the run"),
        ("Evaluator", "not reached"),
        ("Pusher", "not reached"),
    ]
    assert rows[1].reasons == ("drift:age is 0.3000, expected at most 0.2000 (gate.limit)",)
    assert retraining.decided(rows) == "New spans against the live model's data: stopped the run."


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"exit_code": 5}, "drift:age, drift:plan"),
        ({"exit_code": 5, "gate_problems": ("split 'test' is empty", "(add data)")}, "split 'test' is empty"),
        ({"exit_code": 5, "drift": {}}, "failed: new span s7: no records"),
        ({"exit_code": 1}, "failed: new span s7: no records"),
    ],
    ids=["drift", "unfit", "no records", "another error"],
)
def test_a_stopped_run_names_what_the_gate_found(retrained: RunFacts, changes: dict[str, Any], expected: str) -> None:
    """For the status and for notifications; findings that were accepted, or passed, are left out."""
    rows = [measure("drift:age", 0.3), measure("drift:plan", 0.4), measure("drift:a", 0.3, open=False)]
    stopped = replace(retrained, drift={"measures": rows}, outcome="failed: new span s7: no records")

    assert replace(stopped, **changes).reason == expected


def test_a_warning_does_not_stop(retrained: RunFacts) -> None:
    """With gate.drift = warn, the finding is shown, and the run went on."""
    drift = {**retrained.drift, "measures": [measure("drift:age", 0.3)], "accepted": []}
    rows = retraining.gates(replace(retrained, drift=drift))

    assert (rows[1].verdict, retraining.decided(rows)) == ("warning", "All gates passed, one with a warning.")


def test_unfit_data_stopped_the_run(retrained: RunFacts) -> None:
    """Problems of the data itself are those of the first gate."""
    stopped = replace(
        retrained, gate_problems=("split 'test' is empty",), drift={}, nodes=_nodes(Gate="failed"), exit_code=5
    )
    row = retraining.gates(stopped)[0]

    assert (row.verdict, row.reasons) == ("stopped the run", ("split 'test' is empty",))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (_nodes(Gate="failed", Evaluator="skipped", Pusher="skipped"),
         [("Gate", "failed"), ("Evaluator", "not reached"), ("Pusher", "not reached")]),
        (_nodes(Gate="ran", Evaluator="failed", Pusher="skipped"),
         [("Data: schema, splits, classes", "passed"), ("New spans against the live model's data", "not compared"),
          ("Evaluator", "failed"), ("Pusher", "not reached")]),
        (_nodes(Gate="ran", Evaluator="cached", Pusher="failed"),
         [("Data: schema, splits, classes", "passed"), ("New spans against the live model's data", "not compared"),
          ("Pusher", "failed")]),
    ],
    ids=["Gate", "Evaluator", "Pusher"],
)  # fmt: skip
def test_a_gate_that_failed_is_no_gate_that_passed(
    retrained: RunFacts, nodes: tuple[NodeFacts, ...], expected: list[tuple[str, str]]
) -> None:
    """An unexpected error: the reason is that of the run."""
    failed = replace(_not_evaluated(retrained), drift={}, nodes=nodes, exit_code=1, outcome="failed: no: such thing")
    rows = retraining.gates(failed)
    (row,) = [each for each in rows if each.kind == "failed"]

    assert verdicts(failed) == expected
    assert (row.reasons, retraining.decided(rows)) == (("no: such thing",), f"{row.name}: failed.")


def test_a_worse_slice_decided(retrained: RunFacts) -> None:
    """The slice is named with change, records and what is allowed."""
    worse = SliceFacts("place", "far", 0.2, 26, -0.75, 0.5, "what chance explains", passed=False)
    found = replace(retrained, slices=(*retrained.slices, worse), blessed=False, model_version=None)
    rows = retraining.gates(found)

    assert rows[4].reasons == ("place = far: -0.7500 on 26 records, allowed drop 0.5000 (what chance explains)",)
    assert retraining.decided(rows) == "Evaluator: slices against the live model: not blessed."
    assert (rows[5].name, rows[5].verdict) == ("Pusher", "not pushed")


def test_a_first_model_has_no_live_model(retrained: RunFacts) -> None:
    """Nothing was compared, which is no failure."""
    first = replace(
        retrained, drift={}, compared=None, slices=(), thresholds=(Threshold("accuracy", 0.9, "at least 0.6", True),)
    )

    assert verdicts(first)[1:3] == [
        ("New spans against the live model's data", "not compared"), ("Evaluator: minimum", "passed"),
    ]  # fmt: skip


def test_why_nothing_was_compared(retrained: RunFacts) -> None:
    """A note of the Gate is no comparison that passed."""
    drift = {"spans": [], "measures": [], "accepted": [], "notes": ["nothing was compared: ValueError: no"]}
    row = retraining.gates(replace(retrained, drift=drift))[1]

    assert (row.verdict, row.reasons) == ("not compared", ("nothing was compared: ValueError: no",))


def test_candidate_against_live(retrained: RunFacts) -> None:
    """All test records first, then the worst change; marks are on one axis, from the lowest value that is allowed."""
    rows = retraining.against(retrained)

    assert [(row.slice.value, round(row.live, 3)) for row in rows] == [("", 1.0), ("short", 1.0), ("long", 0.6)]
    lows, lives, candidates = zip(*(row.plot for row in rows if row.plot), strict=True)
    assert min(lows) == lows[2] == 7.0  # 0.6 - 0.4
    assert max(lives) == lives[0] == candidates[1] == 173.0
    assert all(low <= live for low, live in zip(lows, lives, strict=True))
    assert rows[0].label == "candidate 0.9000, live model 1.000, on 30 records"


def test_no_change_has_no_minus() -> None:
    """A change that rounds to zero is not written as -0.0000."""
    assert [retraining.signed(each) for each in (-1e-9, 0.25, -0.25)] == ["+0.0000", "+0.2500", "-0.2500"]
