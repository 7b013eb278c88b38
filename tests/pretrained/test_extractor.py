"""A pretrained network, from wherever it comes: found, pinned, cut to its features, asked for vectors."""

import io
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.errors import BadInput
from components.pretrained import extractor
from components.settings.extract import Extract
from components.storage.hashing import HashCache, sha256_of

WIDTH = 5


def png(level: int) -> bytes:
    """Returns a image of one gray."""
    out = io.BytesIO()
    Image.new("RGB", (20, 20), (level, level, level)).save(out, "PNG")
    return out.getvalue()


IMAGES = tf.constant([png(0), png(100), png(200)])


def network(*, name: str = "inner", softmax: bool = True) -> Any:
    """Returns a classifier of small images with `WIDTH` numbers before its head."""
    keras.utils.set_random_seed(3)
    image = keras.Input([16, 16, 3], dtype="uint8", name="image")
    x = keras.layers.Rescaling(1 / 255)(image)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(WIDTH, name=name)(x)
    if softmax:
        x = keras.layers.Dense(2, activation="softmax")(x)
    return keras.Model(image, x)


def wanted(model: Any, layer: str = "inner") -> Any:
    """Returns what a layer makes of the images."""
    pixels = np.stack([np.full((16, 16, 3), level, np.uint8) for level in (0, 100, 200)])
    return keras.Model(model.input, model.get_layer(layer).output)(pixels).numpy()


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Any, Path]:
    """A network as a .keras file."""
    model = network()
    model.save(tmp_path / "net.keras")
    return model, tmp_path / "net.keras"


def found(model: Path | str, sha256: str = "") -> extractor.Source:
    """Looks for a network."""
    return extractor.find(Extract(model=str(model), sha256=sha256), HashCache(None))


class TestFind:
    """Which network is meant."""

    def test_a_keras_file_is_known_by_its_content(self, saved: tuple[Any, Path]) -> None:
        """Wherever it lies."""
        assert found(saved[1]) == extractor.Source(str(saved[1]), sha256_of(saved[1]))

    def test_another_network_than_the_pinned_one_is_refused(self, saved: tuple[Any, Path]) -> None:
        """Its digest is told, so that it can be pinned."""
        with pytest.raises(BadInput, match=f"its sha256 is {sha256_of(saved[1])}, extract.sha256 wants 00: "):
            found(saved[1], "00")

    def test_a_folder_is_known_by_all_of_its_files(self, tmp_path: Path) -> None:
        """A changed weight is another network."""
        (tmp_path / "variables").mkdir()
        (tmp_path / "saved_model.pb").write_bytes(b"graph")
        (tmp_path / "variables" / "w").write_bytes(b"1")
        before = found(tmp_path).digest
        (tmp_path / "variables" / "w").write_bytes(b"2")

        assert found(tmp_path).digest != before

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("folder", "no saved_model.pb in it"),
            ("net.h5", "expected a .keras file"),
            ("nothing", "there is no such file or folder; expected a SavedModel, a .keras file, or a preset"),
        ],
    )
    def test_what_is_no_network_is_named(self, tmp_path: Path, name: str, reason: str) -> None:
        """With what was expected."""
        (tmp_path / "folder").mkdir()
        (tmp_path / "net.h5").touch()
        with pytest.raises(BadInput, match=reason):
            found(tmp_path / name)

    def test_a_name_that_is_not_at_hand_is_told_how_to_get_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It was looked for in Keras' folder and in KerasHub's."""
        monkeypatch.setenv("KERAS_HOME", "/nowhere/keras")
        monkeypatch.setenv("KAGGLEHUB_CACHE", "/nowhere/hub")
        with pytest.raises(
            BadInput, match=r"MobileNetV2: .* in /nowhere/keras/models, and no .* in /nowhere/hub/models"
        ):
            found("MobileNetV2")


class TestVectors:
    """What a network makes of encoded images."""

    def test_of_a_classifier_what_its_softmax_sees(self, saved: tuple[Any, Path]) -> None:
        """Images are brought to its size."""
        np.testing.assert_allclose(
            extractor.load(str(saved[1])).features(IMAGES), wanted(saved[0]), rtol=1e-5, atol=1e-6
        )

    def test_a_layer_called_features_comes_first(self, tmp_path: Path) -> None:
        """Whatever follows it."""
        model = network(name="features")
        more = keras.Model(model.input, keras.layers.Dense(3)(model.output))
        more.save(tmp_path / "net.keras")

        np.testing.assert_allclose(
            extractor.load(str(tmp_path / "net.keras")).features(IMAGES), wanted(model, "features"), rtol=1e-5
        )

    def test_maps_are_averaged(self, tmp_path: Path) -> None:
        """A network without a top ends in maps."""
        image = keras.Input([16, 16, 3])
        keras.Model(image, keras.layers.Conv2D(4, 3)(image)).save(tmp_path / "net.keras")

        assert extractor.load(str(tmp_path / "net.keras")).features(IMAGES).shape == (3, 4)

    def test_a_saved_model_is_asked_by_its_only_signature(self, tmp_path: Path) -> None:
        """It may want pixels, as here, or encoded images."""
        module = tf.Module()
        spec = tf.TensorSpec([None, 16, 16, 3], tf.float32)
        module.mean = tf.function(lambda pixels: {"mean": tf.reduce_mean(pixels, [1, 2])}, input_signature=[spec])
        tf.saved_model.save(module, str(tmp_path / "net"), signatures=module.mean)

        assert extractor.load(str(tmp_path / "net")).features(IMAGES).numpy().tolist() == [
            [0.0] * 3, [100.0] * 3, [200.0] * 3,
        ]  # fmt: skip

    def test_a_saved_model_without_a_keras_model_cannot_be_trained_on(self, tmp_path: Path) -> None:
        """Beam can run it all the same, and the message says so."""
        with pytest.raises(BadInput, match=r"set extract\.where to beam"):
            extractor.keras_model(str(tmp_path))

    def test_the_width_is_asked_once(self, saved: tuple[Any, Path], tmp_path: Path) -> None:
        """In a process of its own; then it is remembered, even if the network is gone."""
        source = found(saved[1])
        (tmp_path / "notes").mkdir()
        first = extractor.width(source, tmp_path / "notes")
        saved[1].unlink()

        assert (first, extractor.width(source, tmp_path / "notes")) == (WIDTH, WIDTH)


def test_a_keras_application_whose_weights_are_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name; nothing is fetched, and pixels are scaled as it wants them."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    base = keras.applications.MobileNetV2(include_top=False, weights=None, pooling="avg")
    base.save_weights(tmp_path / "models" / "mobilenet_v2_no_top.weights.h5")
    pixels = np.stack([np.full((224, 224, 3), level, np.float32) for level in (0, 100, 200)])

    np.testing.assert_allclose(
        extractor.load("MobileNetV2").features(IMAGES),
        base(keras.applications.mobilenet_v2.preprocess_input(pixels)),
        rtol=1e-4,
        atol=1e-5,
    )
