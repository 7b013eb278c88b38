"""No modality of the multimodal sample predicts the label alone, so the joined model's accuracy is due to the join.

tests/e2e/test_tasks.py tests the accuracy of the joined model.
"""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.features import text as texts
from components.models import heads, image, joined, table, text
from data import digit_questions

BATCH, EPOCHS = 64, 4

pytestmark = pytest.mark.slow


class Questions:
    """The sample as arrays; all rows of an image belong to the same split."""

    def __init__(self, folder: Path, limit: int | None) -> None:
        digit_questions.write_questions(folder, limit)
        rows = [json.loads(line) for line in (folder / digit_questions.FILE).read_text().splitlines()]
        names = sorted({row["image"] for row in rows})
        images = np.stack([np.asarray(Image.open(folder / name).convert("RGB")) for name in names])
        shown = np.array([names.index(row["image"]) for row in rows])
        words = texts.tokens(tf.constant([row["question"] for row in rows]))
        known, ids = np.unique(words.flat_values.numpy(), return_inverse=True)
        self.train, self.vocabulary = shown % 5 < 4, len(known) + 1
        self.labels = np.array([row["label"] == "yes" for row in rows]).astype(int)
        self.columns: dict[str, Any] = {
            "image": images[shown],
            "question": words.with_flat_values(ids + 1).to_tensor().numpy(),
            "numbers": np.array([[row["number"] - 4, 10 * row["ink"] - 3] for row in rows], np.float32),
        }

    def accuracy(self, *names: str) -> float:
        """Trains a model on some columns, and returns its accuracy on the images that were held out."""
        keras.utils.set_random_seed(3)
        inputs = {
            "image": keras.Input([32, 32, 3], dtype="uint8", name="image"),
            "question": keras.Input([None], dtype="int64", name="question"),
            "numbers": keras.Input([2], name="numbers"),
        }
        encoders: dict[str, Any] = {
            "image": image.encode,
            "question": lambda ids: text.encode(ids, self.vocabulary),
            "numbers": table.encode,
        }
        head, own = heads.Classification(2), {name: inputs[name] for name in names}
        model = joined.build(own, [encoders[name](given) for name, given in own.items()], head)
        model.compile(keras.optimizers.Adam(3e-3), head.loss(), metrics=head.metrics(), jit_compile=False)
        mine, others = ({name: self.columns[name][rows] for name in names} for rows in (self.train, ~self.train))
        model.fit(mine, self.labels[self.train], BATCH, EPOCHS, verbose=0)
        found = model.predict(others, BATCH, verbose=0).argmax(axis=1)
        return float((found == self.labels[~self.train]).mean())


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Questions]:
    """The whole sample, and a smaller one for images, which take longer."""
    home = tmp_path_factory.mktemp("questions")
    return {"all": Questions(home / "all", None), "some": Questions(home / "some", 1200)}


@pytest.mark.all
@pytest.mark.parametrize(
    ("sample", "names"),
    [
        ("all", ["question"]),
        ("all", ["numbers"]),
        ("all", ["question", "numbers"]),
        ("some", ["image"]),
        ("some", ["image", "numbers"]),
    ],
    ids=str,
)
def test_some_modalities_alone_cannot_predict_the_label(
    questions: dict[str, Questions], sample: str, names: list[str]
) -> None:
    """Neither one alone, nor two without the image or without the question."""
    assert questions[sample].accuracy(*names) <= 0.65
