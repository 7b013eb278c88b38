"""The baseline model that a candidate is compared with, and the base of a warm start, by the live pointer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tfx.types import standard_artifacts

from components.serving import live
from components.serving.baseline import LiveOfOtherData, LiveOther
from components.serving.live import LiveModel, Move


def models(*numbers: int) -> list[Any]:
    """Returns Model artifacts with these ids."""
    made = [standard_artifacts.Model() for _ in numbers]
    for model, number in zip(made, numbers, strict=True):
        model.id, model.uri = number, f"model-{number}"
    return made


def write_pointer(root: Path, found: Sequence[Any], live_order: Sequence[int]) -> None:
    """Records pushes of these models, in this order."""
    by_id = {model.id: model for model in found}
    moves = [
        Move("push", f"/serving/{version}", live.now(), "ann", "", lineage(by_id.get(number), number))
        for version, number in enumerate(live_order, start=1)
    ]
    if moves:
        live.write(root, lambda pointer: live.follow(pointer, moves, "image"))


def lineage(model: Any, number: int) -> LiveModel:
    """Returns the model as the pointer stores it; one that TFX does not list was deleted."""
    data = model.get_string_custom_property("trained_on") if model else ""
    return LiveModel(number, model.uri if model else "gone", data_digest=data)


def resolve(
    root: Path, found: Sequence[Any], candidate: Sequence[Any], live_order: Sequence[int]
) -> dict[str, list[int]]:
    """Returns the resolved ids, by key."""
    write_pointer(root, found, live_order)
    resolved = LiveOther(str(root)).resolve_artifacts(None, {"model": list(found), "candidate": list(candidate)})
    return {key: [each.id for each in artifacts] for key, artifacts in resolved.items()}


@pytest.mark.parametrize(
    ("live_order", "baseline"),
    [((1, 2), [2]), ((2, 1), [1]), ((1, 2, 3), [2]), ((3,), []), ((), []), ((1, 9), [1])],
    ids=["latest", "pushed again", "not the candidate", "only the candidate", "first run", "deleted"],
)
def test_the_live_model_is_resolved(live_order: tuple[int, ...], baseline: list[int], tmp_path: Path) -> None:
    """The third of three models is the candidate."""
    assert resolve(tmp_path, models(1, 2, 3), models(3), live_order) == {"model": baseline, "candidate": []}


def test_a_model_with_other_inputs_is_not_resolved(tmp_path: Path) -> None:
    """One reads images, one the embeddings of another pretrained model: the Evaluator could call neither."""
    found = models(1, 2, 3, 4)
    for model, pretrained in zip(found, ("mine", "other", "", "mine"), strict=True):
        model.uri = str(tmp_path / str(model.id))
        if pretrained:
            note = Path(model.uri, "Format-Serving", "assets.extra", "pretrained.txt")
            note.parent.mkdir(parents=True)
            note.write_text(pretrained)

    assert resolve(tmp_path, found, found[3:], live_order=(1, 2, 3))["model"] == [1]


def test_a_model_with_other_classes_is_not_resolved(tmp_path: Path) -> None:
    """The order of the classes, most frequent first, does not matter; the third model predicts a quantity."""
    found = models(1, 2, 3, 4)
    for model, classes in zip(found, ("b\na\n", "a\nc\n", "", "a\nb\n"), strict=True):
        model.uri = str(tmp_path / str(model.id))
        if classes:
            labels = Path(model.uri, "Format-Serving", "assets", "labels")
            labels.parent.mkdir(parents=True)
            labels.write_text(classes)

    assert resolve(tmp_path, found, found[3:], live_order=(1, 2, 3))["model"] == [1]


@pytest.mark.parametrize(
    ("trained_on", "base"),
    [(("a", "b", "c"), [2]), (("a", "c", "c"), [1]), (("c", "c", "c"), []), (("a", "", "c"), [1])],
    ids=["latest", "of other data", "only of this data", "of unknown data"],
)
def test_the_base_model_was_not_trained_on_this_data(
    trained_on: Sequence[str], base: list[int], tmp_path: Path
) -> None:
    """All three models were live, and training will read the data `c`."""
    found, examples = models(1, 2, 3), standard_artifacts.Examples()
    for model, data in zip(found, trained_on, strict=True):
        model.set_string_custom_property("trained_on", data)
    examples.set_string_custom_property("input_fingerprint", "c")
    write_pointer(tmp_path, found, (1, 2, 3))

    resolved = LiveOfOtherData(str(tmp_path)).resolve_artifacts(None, {"model": found, "examples": [examples]})

    assert {key: [each.id for each in artifacts] for key, artifacts in resolved.items()} == {
        "model": base,
        "examples": [],
    }
