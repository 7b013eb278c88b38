"""Presets of KerasHub as extractors: written by KerasHub itself, taken by folder or by name, never fetched."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.errors import BadInput
from components.pretrained import extractor, presets
from components.settings.extract import Extract
from components.storage.hashing import HashCache

NAME = "resnet_tiny"
LEVELS = (0, 100, 200)
SCALE, OFFSET = [1 / 50, 1 / 60, 1 / 70], [-2.0, -2.1, -2.2]


def images(side: int) -> Any:
    """Returns encoded images of one gray each."""

    def png(level: int) -> bytes:
        out = io.BytesIO()
        Image.new("RGB", (side, side), (level, level, level)).save(out, "PNG")
        return out.getvalue()

    return tf.constant([png(level) for level in LEVELS])


def pixels(side: int) -> Any:
    """Returns the same as numbers."""
    return np.stack([np.full((side, side, 3), level, np.float32) for level in LEVELS])


@pytest.fixture(scope="module")
def backbone() -> Any:
    """A small network with weights of its own."""
    keras.utils.set_random_seed(5)
    return keras_hub.models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[3],
        stackwise_num_filters=[64],
        stackwise_num_blocks=[1],
        stackwise_num_strides=[1],
        block_type="basic_block",
    )


@pytest.fixture(scope="module")
def preset(backbone: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier as KerasHub saves it, in the folder where KerasHub would keep it, beside an older version."""
    home = tmp_path_factory.mktemp("kagglehub")
    folder = home / "models" / "keras" / "resnetv1" / "keras" / NAME
    converter = keras_hub.layers.ResNetImageConverter(image_size=(24, 24), scale=SCALE, offset=OFFSET)
    classifier = keras_hub.models.ResNetImageClassifier(
        backbone=backbone,
        num_classes=2,
        preprocessor=keras_hub.models.ResNetImageClassifierPreprocessor(image_converter=converter),
    )
    for version in ("9", "10"):
        classifier.save_to_preset(str(folder / version))
    return folder / "10"


def found(model: Path | str) -> extractor.Source:
    """Looks for a network."""
    return extractor.find(Extract(model=str(model)), HashCache(None))


def averaged(backbone: Any, numbers: Any) -> Any:
    """Returns what the network makes of images, by KerasHub alone."""
    return keras.ops.convert_to_numpy(backbone(numbers, training=False)).mean(axis=(1, 2))


def test_images_are_sized_and_scaled_as_the_preset_says(backbone: Any, preset: Path) -> None:
    """Vectors are the averaged maps of the backbone; the head is left off."""
    np.testing.assert_allclose(
        extractor.load(str(preset)).features(images(40)),
        averaged(backbone, pixels(24) * SCALE + OFFSET),
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_backbone_alone_sees_pixels_as_they_are(backbone: Any, tmp_path: Path) -> None:
    """It comes without a word about images: 224 pixels a side, 0 to 255."""
    backbone.save_to_preset(str(tmp_path / "alone"))

    np.testing.assert_allclose(
        extractor.load(str(tmp_path / "alone")).features(images(30)), averaged(backbone, pixels(224)), rtol=1e-3
    )


def test_a_name_is_what_was_fetched_under_it(preset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest version of it, known by its content."""
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(preset.parents[5]))

    assert found(NAME) == found(preset)
    assert (found(NAME).path, found(NAME).packages) == (str(preset), ("keras-hub",))


def test_what_was_not_fetched_is_not_fetched_now(preset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where it was looked for, and how it gets there."""
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(preset.parents[5]))

    with pytest.raises(BadInput, match=r"no preset of KerasHub in .*models; .*from_preset\('resnet_50_imagenet'\)"):
        found("resnet_50_imagenet")


def test_without_weights_there_is_no_network(preset: Path, tmp_path: Path) -> None:
    """A download that broke off leaves such a folder."""
    (tmp_path / "config.json").write_bytes((preset / "config.json").read_bytes())

    with pytest.raises(BadInput, match=r"no model\.weights\.h5 in it"):
        found(tmp_path)


def test_it_says_so_if_the_package_is_missing(preset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is optional."""
    monkeypatch.setitem(sys.modules, "keras_hub", None)

    with pytest.raises(BadInput, match=r"KerasHub, which is not installed; `pip install 'penstock\[hub\]'` brings it"):
        found(preset)


def test_looking_for_one_imports_nothing_of_it(preset: Path) -> None:
    """What is due is decided without Keras."""
    code = (
        "import sys; from components import extractor; from components.storage.hashing import HashCache; "
        "from components.settings import Extract; "
        f"extractor.find(Extract(model={str(preset)!r}), HashCache(None)); "
        "sys.exit(any(name in sys.modules for name in ('keras', 'keras_hub', 'tensorflow')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_network_of_texts_is_refused(tmp_path: Path) -> None:
    """With what it is."""
    network = keras_hub.models.BertBackbone(
        vocabulary_size=9, num_layers=1, num_heads=1, hidden_dim=4, intermediate_dim=4, max_sequence_length=5
    )
    network.save_to_preset(str(tmp_path / "bert"))

    with pytest.raises(BadInput, match="BertBackbone is no network of images alone"):
        presets.backbone(tmp_path / "bert")


def test_damaged_weights_are_told(preset: Path, tmp_path: Path) -> None:
    """By the folder's name, not by a trace."""
    for name in ("config.json", "metadata.json"):
        (tmp_path / name).write_bytes((preset / name).read_bytes())
    (tmp_path / "model.weights.h5").write_bytes((preset / "model.weights.h5").read_bytes()[:5000])

    with pytest.raises(BadInput, match=f"extract.model {tmp_path}: KerasHub cannot load it"):
        extractor.load(str(tmp_path))


def test_it_can_be_a_part_of_a_model_and_be_kept(preset: Path, tmp_path: Path) -> None:
    """Frozen or trained on; Keras writes it down and reads it back."""
    network = extractor.keras_model(str(preset))
    network.save(tmp_path / "kept.keras")

    assert (network.inputs[0].shape, network.outputs[0].shape) == ((None, 24, 24, 3), (None, 64))
    np.testing.assert_allclose(
        extractor.load(str(tmp_path / "kept.keras")).features(images(24)), network(pixels(24)), rtol=1e-4, atol=1e-5
    )
