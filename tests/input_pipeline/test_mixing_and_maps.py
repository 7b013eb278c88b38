"""Batches after augmentation: mixup, cutmix, and the user's own maps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import SettingsError
from components.features import NotAugmented

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user."""
    import sys
    import types

    module = types.ModuleType("maps_of_a_user")
    module.__dict__.update(darken=darken, count=count)
    monkeypatch.setitem(sys.modules, "maps_of_a_user", module)


def darken(values: dict[str, Any], labels: Any, seeds: Any) -> tuple[dict[str, Any], Any]:
    """Changes an image, with a condition on tensors."""
    del seeds
    if tf.shape(labels)[0] > 0:
        values = {"image": values["image"] // 2}
    return values, labels


def count(values: dict[str, Any], labels: Any, seeds: Any) -> tuple[dict[str, Any], Any]:
    """Adds values."""
    return {**values, "epoch": seeds[:, 1], "rows": tf.fill(tf.shape(labels), tf.shape(labels)[0])}, labels


class TestMaps:
    """The setting `input.maps`."""

    def test_maps_are_applied_in_order(self, images: Any) -> None:
        """To whole batches, in training."""
        reader = images.reader(maps="maps_of_a_user:darken,maps_of_a_user:count")
        values, labels = next(iter(reader.training(images.files)))

        assert set(values) == {"image", "epoch", "rows"}
        assert values["rows"].numpy().tolist() == [16] * 16
        np.testing.assert_array_equal(values["image"].numpy()[:, 0, 0, 0], labels.numpy() // 2)

    def test_evaluation_applies_no_maps(self, images: Any) -> None:
        """What a served model must do too belongs into a feature."""
        reader = images.reader(maps="maps_of_a_user:darken")
        values, labels = next(iter(reader.evaluation(images.files)))

        np.testing.assert_array_equal(values["image"].numpy()[:, 0, 0, 0], labels.numpy())

    @pytest.mark.parametrize("kind", ["number", "text"])
    def test_maps_see_batches_not_pools(self, kinds: Any, kind: str) -> None:
        """Whichever way pools become batches."""
        records = kinds[kind]
        batches = list(
            records.reader(maps="maps_of_a_user:count").training(records.files, epochs=1).as_numpy_iterator()
        )

        assert sorted(len(labels) for _, labels in batches) == [1, 16, 16, 16, 16, 16, 16]
        assert all((values["rows"] == len(labels)).all() for values, labels in batches)


class TestMixing:
    """mixup and cutmix."""

    @pytest.mark.slow
    @pytest.mark.parametrize("how", [{"mixup": 0.4}, {"mixup": 0.4, "cutmix": 1.0}])
    def test_labels_are_probabilities_of_two_classes(self, images: Any, how: dict[str, float]) -> None:
        """The record's own class and its neighbour's."""
        reader = images.reader(augment=True, augmentation=how)
        labels = np.concatenate([each for _, each in reader.training(images.files, epochs=1).as_numpy_iterator()])

        assert reader.is_soft
        assert labels.shape == (97, 97)
        np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-5)
        assert labels.sum() == pytest.approx(97, abs=1e-3)
        assert ((labels > 0).sum(axis=1) <= 2).all()

    def test_pixels_are_mixed_like_labels(self, images: Any) -> None:
        """The color of an image encodes its number, and that of the mixture the mixture of numbers."""
        still = {"crop": "none", "brightness": 0, "contrast": 0, "mixup": 1.0}
        values, labels = next(iter(images.reader(augment=True, augmentation=still).training(images.files)))

        np.testing.assert_allclose(values["image"].numpy()[:, 3, 3, 0], labels.numpy() @ np.arange(97), atol=0.51)

    def test_evaluation_has_probabilities_of_one_class(self, images: Any) -> None:
        """Training and evaluation use the same loss."""
        reader = images.reader(augment=True, augmentation={"mixup": 0.4})
        _, labels = next(iter(reader.evaluation(images.files)))

        np.testing.assert_array_equal(labels.numpy(), np.eye(97)[:16])

    def test_without_augmentation_nothing_is_mixed(self, images: Any) -> None:
        """One switch for everything random."""
        reader = images.reader(augment=False, augmentation={"mixup": 0.4})

        assert not reader.is_soft
        assert reader.training(images.files).element_spec[1] == tf.TensorSpec([None], tf.int64)

    def test_texts_cannot_be_mixed(self, texts: Any) -> None:
        """The message says what to set."""
        with pytest.raises(SettingsError, match=r"one image and no more; these have text: set .* to 0"):
            texts.reader(augment=True, augmentation={"mixup": 0.4}).training(texts.files)

    def test_the_number_of_classes_is_required(self, images: Any) -> None:
        """It is the length of the labels."""
        with pytest.raises(SettingsError, match="pass the number of classes"):
            replace(images.reader(augment=True, augmentation={"cutmix": 1}), classes=0).training(images.files)


def test_a_feature_of_several_columns_gives_several_inputs(numbers: Any) -> None:
    """With compound names, next to other features."""

    class Pair(NotAugmented):
        decoded_bytes = 72

        def spec(self) -> Any:
            return {"number": tf.io.FixedLenFeature([], tf.int64), "label": tf.io.FixedLenFeature([], tf.string)}

        def decode(self, stored: Any) -> Any:
            return {"numbers": stored["number"][:, tf.newaxis], "strings": stored["label"][:, tf.newaxis]}

        def keras_input(self, name: str) -> Any:
            raise NotImplementedError(name)

    reader = numbers.reader()
    several = type(reader)({"table": Pair(), **reader.features}, "label", reader.label_number, reader.settings, 5)
    values, labels = next(iter(several.training(numbers.files)))

    assert {key: (value.shape, value.dtype) for key, value in values.items()} == {
        "table_numbers": ((16, 1), tf.int64),
        "table_strings": ((16, 1), tf.string),
        "number": ((16,), tf.int64),
    }
    assert [f"n{n}".encode() for n in labels.numpy()] == values["table_strings"].numpy()[:, 0].tolist()
