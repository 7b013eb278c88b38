"""A served model in memory: the weights of image models are constants."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.inference import find_model, model
from components.inference.model import LoadedModel, RejectedByModel
from components.serving.reading import Argument
from tests.inference.conftest import IMAGE, WORD, png, save_convolution

pytestmark = pytest.mark.slow


def load(folder: Path, *arguments: Argument) -> LoadedModel:
    """Saves a network, and loads it."""
    save_convolution(folder, *arguments)
    found = find_model.find(folder)
    return model.load(str(found.path), found.digest, found.reading)


def served(folder: Path, columns: Mapping[str, Any]) -> Any:
    """Returns what plain TensorFlow predicts."""
    signature = tf.saved_model.load(str(folder)).signatures["raw"]
    return signature(**{name: tf.constant(values) for name, values in columns.items()})["probabilities"].numpy()


@pytest.mark.parametrize("arguments", [(IMAGE,), (IMAGE, WORD)], ids=["image", "image and table"])
def test_constant_weights_change_only_the_last_digits(arguments: tuple[Argument, ...], tmp_path: Path) -> None:
    """Predictions of an image model are within 1e-5 of those of its signature, also if it has a lookup table."""
    values = {"image": np.array([png(3 * number) for number in range(80)], object), "word": np.array(list("abc?") * 20)}
    columns = {each.name: values[each.name] for each in arguments}

    found = load(tmp_path / "model", *arguments)

    assert found.function.__name__ == "of_constants"
    np.testing.assert_allclose(found.predict(columns), served(tmp_path / "model", columns), rtol=0, atol=1e-5)


def test_large_weights_stay_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit the signature itself predicts, because freezing copies the weights several times."""
    monkeypatch.setattr(model, "_FROZEN_BYTES", 1_000)
    columns = {"image": np.array([png(9)], object)}

    found = load(tmp_path / "model", IMAGE)

    assert found.function.__name__ != "of_constants"
    np.testing.assert_array_equal(found.predict(columns), served(tmp_path / "model", columns))


@pytest.mark.parametrize("limit", [0, 1 << 20], ids=["signature", "constants"])
def test_an_error_names_no_part_of_the_graph(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process numbers the functions of a graph in its own way; the reason is the same in all of them."""
    monkeypatch.setattr(model, "_FROZEN_BYTES", limit)
    found = load(tmp_path / "model", IMAGE)

    with pytest.raises(RejectedByModel) as caught:
        found.predict({"image": np.array([b"none"], object)})

    assert str(caught.value) == "Unknown image file format. One of JPEG, PNG, GIF, BMP required."
