"""Two runs side by side, and a run that is started again."""

from typing import Any

import pytest

from components.errors import SettingsError
from pipelines.journal.calls import Call
from pipelines.watch import resume
from pipelines.watch.compare import compare
from pipelines.watch.history import NodeRun, Run

CALL = Call("R", 1, "", 1, "host", command=("run", "image", "--label", "kind"), folder="/home")


def make(**values: Any) -> Run:
    """Returns a run."""
    given: dict[str, Any] = {"id": "R", "pipeline": "image", "state": "succeeded", "started": "1", "ended": "2"}
    return Run(**{**given, "seconds": 1.0, "calls": (CALL,), **values})


def node(name: str, state: Any, seconds: float) -> NodeRun:
    """Returns a node of a run."""
    return NodeRun(name, state, "", "", seconds)


def test_what_differs_is_named_by_group() -> None:
    """A setting, a count, a metric, a node that did not run, and how long nodes took; with the change of numbers."""
    first = make(
        settings={"train": {"epochs": 3, "seed": 1}}, records={"train": 10}, metrics={"accuracy": 0.5},
        nodes=(node("Ingest", "ran", 2.0), node("Trainer", "ran", 9.0)),
    )  # fmt: skip
    second = make(
        settings={"train": {"epochs": 5, "seed": 1}}, records={"train": 12}, metrics={"accuracy": 0.75},
        nodes=(node("Ingest", "cached", 0.1), node("Trainer", "ran", 9.0)), data="other",
    )  # fmt: skip
    found = [
        (each.group, each.name, each.first, each.second, each.change)
        for each in compare(first, second)
        if not each.is_equal
    ]

    assert found == [
        ("run", "data", "", "other", None),
        ("settings", "train.epochs", 3, 5, 2),
        ("records", "train", 10, 12, 2),
        ("metrics", "accuracy", 0.5, 0.75, 0.25),
        ("nodes", "Ingest", "ran", "cached", None),
        ("seconds", "Ingest", 2.0, None, None),
    ]


def test_a_run_is_resumed_by_its_command_and_its_id() -> None:
    """In the folder where it was given; an id that was in the command is not repeated."""
    named = make(calls=(Call("R", 2, "", 1, "host", command=("retrain", "image", "--run-id=R"), folder="/x"),))

    assert resume.command(make(state="killed")) == (["run", "--run-id", "R", "image", "--label", "kind"], "/home")
    assert resume.command(named) == (["retrain", "image", "--run-id=R"], "/x")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"calls": ()}, "its command is not known here"),
        ({"calls": (Call("R", 1, "", 1, "host"),)}, "its command is not known here"),
        ({"state": "running"}, "it is running"),
        ({"calls": (Call("R", 1, "", 1, "h", command=("run", "--", "--token=***")),)}, "had a secret"),
    ],
)
def test_a_run_that_cannot_be_resumed_says_why(changed: dict[str, Any], message: str) -> None:
    """The metadata of another machine, another program, one that runs, or a secret that was not recorded."""
    with pytest.raises(SettingsError, match=message):
        resume.command(make(**changed))
