"""A served model in memory."""

from pathlib import Path

import numpy as np
import pytest

from components.inference import find_model, model
from components.inference.model import RejectedByModel
from tests.inference.conftest import save_convolution

pytestmark = pytest.mark.slow


def test_an_error_names_no_part_of_the_graph(tmp_path: Path) -> None:
    """Each process numbers the functions of a graph in its own way; the reason is the same in all of them."""
    save_convolution(tmp_path / "model")
    found = find_model.find(tmp_path / "model")
    loaded = model.load(str(found.path), found.digest, found.reading)

    with pytest.raises(RejectedByModel) as caught:
        loaded.predict({"image": np.array([b"none"], object)})

    assert str(caught.value) == "Unknown image file format. One of JPEG, PNG, GIF, BMP required."
