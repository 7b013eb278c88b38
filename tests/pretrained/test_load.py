"""Loading a pretrained model: where it is cut, how it reads images, and the length of its embeddings."""

import io
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.pretrained.find import PretrainedModel
from components.pretrained.load import load
from components.pretrained.width import embedding_width
from components.storage.hashing import sha256_of

WIDTH = 5


def png(level: int) -> bytes:
    """Returns an image of one gray."""
    out = io.BytesIO()
    Image.new("RGB", (20, 20), (level, level, level)).save(out, "PNG")
    return out.getvalue()


IMAGES = tf.constant([png(0), png(100), png(200)])


def classifier(*, name: str = "inner") -> Any:
    """Returns a classifier of small images with `WIDTH` numbers before its head."""
    keras.utils.set_random_seed(3)
    image = keras.Input([16, 16, 3], dtype="uint8", name="image")
    x = keras.layers.Rescaling(1 / 255)(image)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(WIDTH, name=name)(x)
    return keras.Model(image, keras.layers.Dense(2, activation="softmax")(x))


def layer_output(model: Any, layer: str) -> Any:
    """Returns the output of a layer for the images."""
    pixels = np.stack([np.full((16, 16, 3), level, np.uint8) for level in (0, 100, 200)])
    return keras.Model(model.input, model.get_layer(layer).output)(pixels).numpy()


def test_a_classifier_is_cut_before_its_softmax(tmp_path: Path) -> None:
    """Images are resized to the model's input."""
    model = classifier()
    model.save(tmp_path / "net.keras")

    embeddings = load(str(tmp_path / "net.keras")).embed(IMAGES)
    np.testing.assert_allclose(embeddings, layer_output(model, "inner"), rtol=1e-5, atol=1e-6)


def test_a_model_is_cut_after_its_layer_features(tmp_path: Path) -> None:
    """Whatever layers follow."""
    model = classifier(name="features")
    keras.Model(model.input, keras.layers.Dense(3)(model.output)).save(tmp_path / "net.keras")

    embeddings = load(str(tmp_path / "net.keras")).embed(IMAGES)
    np.testing.assert_allclose(embeddings, layer_output(model, "features"), rtol=1e-5)


def test_feature_maps_are_averaged(tmp_path: Path) -> None:
    """A model without top ends in maps."""
    image = keras.Input([16, 16, 3])
    keras.Model(image, keras.layers.Conv2D(4, 3)(image)).save(tmp_path / "net.keras")

    assert load(str(tmp_path / "net.keras")).embed(IMAGES).shape == (3, 4)


def test_a_saved_model_is_called_by_its_only_signature(tmp_path: Path) -> None:
    """This one takes pixels; others may take encoded images."""
    module = tf.Module()
    spec = tf.TensorSpec([None, 16, 16, 3], tf.float32)
    module.mean = tf.function(lambda pixels: {"mean": tf.reduce_mean(pixels, [1, 2])}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path / "net"), signatures=module.mean)

    assert load(str(tmp_path / "net")).embed(IMAGES).numpy().tolist() == [[0.0] * 3, [100.0] * 3, [200.0] * 3]


@pytest.mark.slow
def test_the_embedding_width_is_stored(tmp_path: Path) -> None:
    """A process of its own computes it; then it is read from the notes, even if the model is deleted."""
    classifier().save(tmp_path / "net.keras")
    model = PretrainedModel(str(tmp_path / "net.keras"), sha256_of(tmp_path / "net.keras"))
    (tmp_path / "notes").mkdir()
    first = embedding_width(model, tmp_path / "notes")
    (tmp_path / "net.keras").unlink()

    assert (first, embedding_width(model, tmp_path / "notes")) == (WIDTH, WIDTH)


@pytest.mark.slow
def test_a_keras_application_is_loaded_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, without a download, with its own preprocessing."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    base = keras.applications.MobileNetV2(include_top=False, weights=None, pooling="avg")
    base.save_weights(tmp_path / "models" / "mobilenet_v2_no_top.weights.h5")
    pixels = np.stack([np.full((224, 224, 3), level, np.float32) for level in (0, 100, 200)])

    np.testing.assert_allclose(
        load("MobileNetV2").embed(IMAGES),
        base(keras.applications.mobilenet_v2.preprocess_input(pixels)),
        rtol=1e-4,
        atol=1e-5,
    )
