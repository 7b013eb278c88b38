"""The baseline model that a candidate is compared with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tfx.types import standard_artifacts

from components.evaluation.baseline import LatestBlessedOfOtherData, LatestBlessedOther


def models(*numbers: int) -> list[Any]:
    """Returns Model artifacts with these ids."""
    made = [standard_artifacts.Model() for _ in numbers]
    for model, number in zip(made, numbers, strict=True):
        model.id = number
    return made


def blessings(**verdicts: int) -> list[Any]:
    """Returns blessings: `m3=1` blesses model 3, `m3=0` does not."""
    made = []
    for model, blessed in verdicts.items():
        blessing = standard_artifacts.ModelBlessing()
        blessing.set_int_custom_property("blessed", blessed)
        blessing.set_int_custom_property("current_model_id", int(model.removeprefix("m")))
        made.append(blessing)
    return made


def resolve(found: Sequence[Any], verdicts: Sequence[Any], candidate: Sequence[Any]) -> dict[str, list[int]]:
    """Returns the resolved ids, by key."""
    inputs = {"model": list(found), "model_blessing": list(verdicts), "candidate": list(candidate)}
    resolved = LatestBlessedOther().resolve_artifacts(None, inputs)
    return {key: [each.id for each in artifacts] for key, artifacts in resolved.items()}


@pytest.mark.parametrize(
    ("verdicts", "baseline"),
    [
        ({"m1": 1, "m2": 1}, [2]),
        ({"m2": 1, "m1": 1}, [2]),
        ({"m1": 1, "m2": 0}, [1]),
        ({"m1": 1, "m2": 1, "m3": 1}, [2]),
        ({"m3": 1}, []),
        ({"m1": 0, "m2": 0}, []),
        ({}, []),
    ],
    ids=[
        "latest",
        "in any order",
        "blessed",
        "not the candidate",
        "only the candidate",
        "none blessed",
        "first run",
    ],
)
def test_the_latest_blessed_other_model_is_resolved(verdicts: dict[str, int], baseline: list[int]) -> None:
    """The third of three models is the candidate."""
    assert resolve(models(1, 2, 3), blessings(**verdicts), models(3)) == {
        "model": baseline,
        "model_blessing": [],
        "candidate": [],
    }


def test_a_model_with_other_inputs_is_not_resolved(tmp_path: Path) -> None:
    """One reads images, one the embeddings of another pretrained model: the Evaluator could call neither."""
    found = models(1, 2, 3, 4)
    for model, pretrained in zip(found, ("mine", "other", "", "mine"), strict=True):
        model.uri = str(tmp_path / str(model.id))
        if pretrained:
            note = Path(model.uri, "Format-Serving", "assets.extra", "pretrained.txt")
            note.parent.mkdir(parents=True)
            note.write_text(pretrained)

    assert resolve(found, blessings(m1=1, m2=1, m3=1), found[3:])["model"] == [1]


def test_a_model_with_other_classes_is_not_resolved(tmp_path: Path) -> None:
    """The order of the classes, most frequent first, does not matter; the third model predicts a quantity."""
    found = models(1, 2, 3, 4)
    for model, classes in zip(found, ("b\na\n", "a\nc\n", "", "a\nb\n"), strict=True):
        model.uri = str(tmp_path / str(model.id))
        if classes:
            labels = Path(model.uri, "Format-Serving", "assets", "labels")
            labels.parent.mkdir(parents=True)
            labels.write_text(classes)

    assert resolve(found, blessings(m1=1, m2=1, m3=1), found[3:])["model"] == [1]


@pytest.mark.parametrize(
    ("trained_on", "base"),
    [(("a", "b", "c"), [2]), (("a", "c", "c"), [1]), (("c", "c", "c"), []), (("a", "", "c"), [1])],
    ids=["latest", "of other data", "only of this data", "of unknown data"],
)
def test_the_base_model_was_not_trained_on_this_data(trained_on: Sequence[str], base: list[int]) -> None:
    """All three models are blessed, and training will read the data `c`."""
    found, examples = models(1, 2, 3), standard_artifacts.Examples()
    for model, data in zip(found, trained_on, strict=True):
        model.set_string_custom_property("trained_on", data)
    examples.set_string_custom_property("input_fingerprint", "c")
    inputs = {"model": found, "model_blessing": blessings(m1=1, m2=1, m3=1), "examples": [examples]}

    resolved = LatestBlessedOfOtherData().resolve_artifacts(None, inputs)

    assert {key: [each.id for each in artifacts] for key, artifacts in resolved.items()} == {
        "model": base,
        "model_blessing": [],
        "examples": [],
    }


def test_a_deleted_model_is_not_resolved() -> None:
    """TFX lists only live models."""
    assert resolve(models(1, 3), blessings(m1=1, m2=1), models(3))["model"] == [1]
