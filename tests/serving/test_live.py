"""The live pointer: which model is live, which is before it, and which ones are baseline and base."""

from pathlib import Path
from typing import Any

import pytest

from components.errors import BadInput
from components.serving import live
from components.serving.live import LiveModel, LivePointer, Move


def pointer(*history: str) -> LivePointer:
    """Returns a pointer after moves such as `push 10`, `promote 10` and `rollback 10 to 1`; versions are counted."""
    moves = []
    for version, text in enumerate(history, start=1):
        kind, model, *source = text.replace(" to ", " ").split()
        lineage = LiveModel(int(model), f"/models/{model}", "digest", f"data of {model}", ("s00001",), "run")
        target = f"/serving/{source[0]}" if source else ""
        known: Any = kind
        moves.append(Move(known, f"/serving/{version}", live.now(), "ann@host", "why", lineage, target))
    return LivePointer("image", tuple(moves))


@pytest.mark.parametrize(
    ("history", "earlier", "rolled_back"),
    [
        (["push 10"], [], []),
        (["push 10", "push 20", "push 30"], [2, 1], []),
        (["push 10", "push 20", "push 20"], [1], []),
        (["push 10", "push 20", "rollback 10 to 1"], [], [2]),
        (["push 10", "push 20", "push 30", "rollback 20 to 2"], [1], [3]),
        (["push 10", "push 20", "push 30", "rollback 20 to 2", "rollback 10 to 1"], [], [3, 4]),
        (["push 10", "push 20", "push 30", "rollback 10 to 1", "push 40"], [4], [2, 3]),
        (["push 10", "push 20", "rollback 10 to 1", "promote 20"], [3], [2]),
        (["push 10", "push 20", "promote 10"], [2, 1], []),
    ],
)
def test_where_a_rollback_leads(history: list[str], earlier: list[int], rolled_back: list[int]) -> None:
    """A rollback undoes every version above its target; the same model pushed again is one step, not two."""
    found = pointer(*history)

    assert [move.version for move in found.earlier] == earlier
    assert [move.version for move in found.rolled_back] == rolled_back
    assert (found.live.version, found.previous) == (len(history), next(iter(found.earlier), None))


@pytest.mark.parametrize(
    ("history", "withdrawn"),
    [
        (["push 10", "push 20"], []),
        (["push 10", "push 20", "rollback 10 to 1"], [20]),
        (["push 10", "push 20", "push 30", "rollback 10 to 1", "push 40"], [20, 30]),
        (["push 10", "push 20", "rollback 10 to 1", "promote 20"], [10]),
        (["push 10", "push 20", "push 10", "rollback 20 to 2"], [10]),
        (["push 10", "push 20", "promote 10", "push 30"], [20]),
    ],
)
def test_what_a_person_withdrew(history: list[str], withdrawn: list[int]) -> None:
    """A run must not push it again; a model that another push replaced may come back."""
    assert [model for model in (10, 20, 30, 40) if pointer(*history).has_withdrawn(model)] == withdrawn


@pytest.mark.parametrize(
    "person", [[], ["rollback 10 to 1"], ["promote 10"]], ids=["pushed", "rolled back", "promoted"]
)
def test_a_verdict_lasts(person: list[str]) -> None:
    """The baseline of a model that was pushed stays the one that it was compared with, whatever a person does."""
    before = ["push 10", "push 20"]

    compared = [model.artifact for model in pointer(*before).baselines(30)]
    assert compared == [20, 10]
    assert [model.artifact for model in pointer(*before, "push 30", *person).baselines(30)] == compared


@pytest.mark.parametrize(
    ("history", "baselines"),
    [
        (["push 10"], [10]),
        (["push 10", "push 20"], [20, 10]),
        (["push 10", "push 20", "rollback 10 to 1"], [10]),
        (["push 10", "push 20", "push 30", "rollback 10 to 1", "push 40"], [40, 10]),
        (["push 10", "push 99", "push 20"], [20, 10]),
    ],
)
def test_a_new_model_is_compared_with_the_live_one(history: list[str], baselines: list[int]) -> None:
    """Never with one that was rolled back, never with itself (model 99, which earlier settings give again)."""
    assert [model.artifact for model in pointer(*history).baselines(99)] == baselines


@pytest.mark.parametrize(
    ("history", "bases"),
    [
        (["push 10", "push 20"], [20, 10]),
        (["push 10", "push 30"], [10]),
        (["push 10", "push 20", "push 30", "rollback 10 to 1"], [20, 10]),
        (["push 10", "push 20", "push 30", "rollback 10 to 1", "push 40"], [20, 10]),
        (["push 10", "push 20", "push 30", "rollback 10 to 1", "promote 30"], [10]),
        (["push 10", "push 20", "rollback 10 to 1"], [10]),
        (["push 30"], []),
    ],
)
def test_training_starts_from_a_model_of_other_data(history: list[str], bases: list[int]) -> None:
    """Never from one that was rolled back; but the base of data whose own model was withdrawn stays what it was."""
    assert [model.artifact for model in pointer(*history).bases("data of 30")] == bases


def test_a_pointer_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Every field of every move; a version that it has is not added twice."""
    made = pointer("push 10", "push 20", "rollback 10 to 1")
    live.write(tmp_path, lambda _: made)

    assert live.read(tmp_path) == made
    assert live.write(tmp_path, lambda known: live.follow(known, made.moves[1:], "image")) == made
    assert live.read(tmp_path / "elsewhere") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1, "pipeline": "x", "moves": []}']
)
def test_a_damaged_pointer_is_an_error(tmp_path: Path, content: bytes) -> None:
    """It names the file and what to do; nothing is guessed."""
    (tmp_path / "live.json").write_bytes(content)

    with pytest.raises(BadInput, match=rf"^{tmp_path}/live.json: damaged .*; expected what Penstock wrote: restore it"):
        live.read(tmp_path)


def test_the_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a flag says, then what the environment says, then the user and the host."""
    monkeypatch.setenv("PENSTOCK_ACTOR", "scheduler")
    by_environment = live.actor()
    monkeypatch.delenv("PENSTOCK_ACTOR")

    assert (live.actor("ann"), by_environment) == ("ann", "scheduler")
    assert live.actor().count("@") == 1
