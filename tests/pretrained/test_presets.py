"""KerasHub presets as pretrained models: found by folder or by name, never downloaded."""

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
from components.pretrained import presets
from components.pretrained.find import PretrainedModel, find_model
from components.pretrained.load import keras_model, load
from components.settings.extract import Extract
from components.storage.hashing import HashCache

NAME = "resnet_tiny"
LEVELS = (0, 100, 200)
SCALE, OFFSET = [1 / 50, 1 / 60, 1 / 70], [-2.0, -2.1, -2.2]


def images(side: int) -> Any:
    """Returns encoded images, each of one gray."""

    def png(level: int) -> bytes:
        out = io.BytesIO()
        Image.new("RGB", (side, side), (level, level, level)).save(out, "PNG")
        return out.getvalue()

    return tf.constant([png(level) for level in LEVELS])


def pixels(side: int) -> Any:
    """Returns the pixels of the same images."""
    return np.stack([np.full((side, side, 3), level, np.float32) for level in LEVELS])


@pytest.fixture(scope="module")
def backbone() -> Any:
    """A small backbone with random weights."""
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
    """A classifier that KerasHub saved, in the layout of its download cache, next to an older version."""
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


def find(model: Path | str) -> PretrainedModel:
    """Returns the model that a path or a name means."""
    return find_model(Extract(model=str(model)), HashCache(None))


def averaged(backbone: Any, numbers: Any) -> Any:
    """Returns the backbone's averaged feature maps, computed by KerasHub alone."""
    return keras.ops.convert_to_numpy(backbone(numbers, training=False)).mean(axis=(1, 2))


def test_images_are_resized_and_scaled_by_the_presets_converter(backbone: Any, preset: Path) -> None:
    """Embeddings are the averaged feature maps of the backbone; the head is not used."""
    np.testing.assert_allclose(
        load(str(preset)).embed(images(40)),
        averaged(backbone, pixels(24) * SCALE + OFFSET),
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_backbone_without_a_converter_gets_default_pixels(backbone: Any, tmp_path: Path) -> None:
    """224 x 224 pixels with values 0–255."""
    backbone.save_to_preset(str(tmp_path / "alone"))

    np.testing.assert_allclose(
        load(str(tmp_path / "alone")).embed(images(30)), averaged(backbone, pixels(224)), rtol=1e-3
    )


def test_a_name_means_the_latest_cached_version(preset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 10 is later than version 9."""
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(preset.parents[5]))

    assert find(NAME) == find(preset)
    assert (find(NAME).path, find(NAME).packages) == (str(preset), ("keras-hub",))


def test_a_preset_that_is_not_cached_is_rejected(preset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the cache and the call that downloads the preset."""
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(preset.parents[5]))

    with pytest.raises(BadInput, match=r"no KerasHub preset in .*models; .*from_preset\('resnet_50_imagenet'\)"):
        find("resnet_50_imagenet")


def test_a_preset_without_weights_is_rejected(preset: Path, tmp_path: Path) -> None:
    """An interrupted download leaves such a folder."""
    (tmp_path / "config.json").write_bytes((preset / "config.json").read_bytes())

    with pytest.raises(BadInput, match=r"the folder has no model\.weights\.h5"):
        find(tmp_path)


def test_a_preset_needs_keras_hub(preset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to install the optional package."""
    monkeypatch.setitem(sys.modules, "keras_hub", None)

    with pytest.raises(BadInput, match=r"KerasHub is not installed; run `pip install 'penstock\[hub\]'`"):
        find(preset)


def test_finding_a_preset_does_not_import_keras(preset: Path) -> None:
    """Planning a run must be fast."""
    code = (
        "import sys; from components.pretrained.find import find_model; "
        "from components.storage.hashing import HashCache; from components.settings.extract import Extract; "
        f"find_model(Extract(model={str(preset)!r}), HashCache(None)); "
        "sys.exit(any(name in sys.modules for name in ('keras', 'keras_hub', 'tensorflow')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_text_backbone_is_rejected(tmp_path: Path) -> None:
    """The message names its class."""
    bert = keras_hub.models.BertBackbone(
        vocabulary_size=9, num_layers=1, num_heads=1, hidden_dim=4, intermediate_dim=4, max_sequence_length=5
    )
    bert.save_to_preset(str(tmp_path / "bert"))

    with pytest.raises(BadInput, match="BertBackbone is no image backbone"):
        presets.backbone(tmp_path / "bert")


def test_damaged_weights_are_rejected(preset: Path, tmp_path: Path) -> None:
    """The message names the folder."""
    for name in ("config.json", "metadata.json"):
        (tmp_path / name).write_bytes((preset / name).read_bytes())
    (tmp_path / "model.weights.h5").write_bytes((preset / "model.weights.h5").read_bytes()[:5000])

    with pytest.raises(BadInput, match=f"extract.model {tmp_path}: KerasHub cannot load it"):
        load(str(tmp_path))


def test_a_preset_can_be_part_of_another_model(preset: Path, tmp_path: Path) -> None:
    """Keras can save it and load it again."""
    model = keras_model(str(preset))
    model.save(tmp_path / "kept.keras")

    assert (model.inputs[0].shape, model.outputs[0].shape) == ((None, 24, 24, 3), (None, 64))
    np.testing.assert_allclose(
        load(str(tmp_path / "kept.keras")).embed(images(24)), model(pixels(24)), rtol=1e-4, atol=1e-5
    )
