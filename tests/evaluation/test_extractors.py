"""What the Evaluator keeps of a batch."""

from typing import Any

import numpy as np

from components.evaluation.extractors import reduce


def predicted(*classes: bytes) -> dict[str, Any]:
    """Returns a model's predictions for two records; the first class is the more probable one."""
    return {
        "label": np.array([classes[0]] * 2, object),
        "all_classes": np.array([classes] * 2, object),
        "probabilities": np.array([[0.9, 0.1]] * 2, np.float32),
    }


def batch(labels: Any, predictions: Any) -> dict[str, Any]:
    """Returns a batch of two records as TFMA reads it."""
    features = {"id": np.array([[1], [2]]), "place": np.array([[b"here"], [b"there"]], object)}
    return {
        "features": features, "labels": labels, "predictions": predictions, "input": np.array([b"", b""], object),
        "transformed_features": {"text_length": np.array([b"short", b"long"], object)},
    }  # fmt: skip


def plain(reduced: Any) -> Any:
    """Returns arrays as lists."""
    return {key: plain(value) for key, value in reduced.items()} if isinstance(reduced, dict) else reduced.tolist()


PROBABILITIES = np.array([[0.9, 0.1]] * 2, np.float32).tolist()
SLICES = {"features": {"place": [[b"here"], [b"there"]]}, "transformed_features": {"text_length": [b"short", b"long"]}}


def test_labels_become_numbers_of_classes() -> None:
    """A label that the model does not know is -1, as for TFMA; only features that are sliced by remain."""
    labels = np.array([[b"dog"], [b"cow"]], object)
    reduced = reduce(batch(labels, predicted(b"cat", b"dog")), frozenset({"place"}))

    assert plain(reduced) == {"labels": [1, -1], "predictions": PROBABILITIES, **SLICES}


def test_each_of_two_models_numbers_the_classes_in_its_own_order() -> None:
    """A class may be the most frequent one in one train split, and rare in another."""
    labels = {name: np.array([[b"cat"], [b"dog"]], object) for name in ("candidate", "baseline")}
    models = {"candidate": predicted(b"cat", b"dog"), "baseline": predicted(b"dog", b"cat")}
    reduced = plain(reduce(batch(labels, models), frozenset({"place"})))

    assert reduced["labels"] == {"candidate": [0, 1], "baseline": [1, 0]}
    assert reduced["predictions"] == {"candidate": PROBABILITIES, "baseline": PROBABILITIES}


def test_quantities_stay_as_they_are() -> None:
    """One value per record."""
    reduced = reduce(batch(np.array([[1.5], [2.5]]), np.array([1.0, 2.0])), frozenset())

    assert plain({key: reduced[key] for key in ("labels", "predictions", "features")}) == {
        "labels": [1.5, 2.5], "predictions": [1.0, 2.0], "features": {},
    }  # fmt: skip
