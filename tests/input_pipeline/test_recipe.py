"""What is done to batches after augmentation: records are blended, and handed through the maps of the user."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import SettingsError


@pytest.fixture(autouse=True)
def maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's."""
    import sys
    import types

    module = types.ModuleType("maps_of_a_user")
    module.__dict__.update(darken=darken, count=count)
    monkeypatch.setitem(sys.modules, "maps_of_a_user", module)


def darken(values: dict[str, Any], labels: Any, seeds: Any) -> tuple[dict[str, Any], Any]:
    """Changes a image, by a condition on tensors."""
    del seeds
    if tf.shape(labels)[0] > 0:
        values = {"image": values["image"] // 2}
    return values, labels


def count(values: dict[str, Any], labels: Any, seeds: Any) -> tuple[dict[str, Any], Any]:
    """Adds a value of its own."""
    return {**values, "epoch": seeds[:, 1], "rows": tf.fill(tf.shape(labels), tf.shape(labels)[0])}, labels


class TestMaps:
    """Functions of the user."""

    def test_they_are_applied_in_their_order(self, images: Any) -> None:
        """To whole batches, in training."""
        reader = images.reader(maps="maps_of_a_user:darken,maps_of_a_user:count")
        values, labels = next(iter(reader.training(images.files)))

        assert set(values) == {"image", "epoch", "rows"}
        assert values["rows"].numpy().tolist() == [16] * 16
        np.testing.assert_array_equal(values["image"].numpy()[:, 0, 0, 0], labels.numpy() // 2)

    def test_evaluation_does_without_them(self, images: Any) -> None:
        """What a served model must do as well belongs into a feature."""
        reader = images.reader(maps="maps_of_a_user:darken")
        values, labels = next(iter(reader.evaluation(images.files)))

        np.testing.assert_array_equal(values["image"].numpy()[:, 0, 0, 0], labels.numpy())

    @pytest.mark.parametrize("kind", ["number", "text"])
    def test_pools_are_cut_before_them(self, worlds: Any, kind: str) -> None:
        """They see batches, whatever shape the stream has."""
        world = worlds[kind]
        batches = list(world.reader(maps="maps_of_a_user:count").training(world.files, epochs=1).as_numpy_iterator())

        assert sorted(len(labels) for _, labels in batches) == [1, 16, 16, 16, 16, 16, 16]
        assert all((values["rows"] == len(labels)).all() for values, labels in batches)


class TestMixtures:
    """Records that are blended."""

    @pytest.mark.parametrize("how", [{"mixup": 0.4}, {"cutmix": 1.0}, {"mixup": 0.4, "cutmix": 1.0}])
    def test_labels_are_shares_that_add_up(self, images: Any, how: dict[str, float]) -> None:
        """Of two classes at the most: a record's own, and its neighbour's."""
        reader = images.reader(augment=True, augmentation=how)
        labels = np.concatenate([each for _, each in reader.training(images.files, epochs=1).as_numpy_iterator()])

        assert reader.is_soft
        assert labels.shape == (97, 97)
        np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-5)
        assert labels.sum() == pytest.approx(97, abs=1e-3)
        assert ((labels > 0).sum(axis=1) <= 2).all()

    def test_pixels_are_blended_as_labels_are(self, images: Any) -> None:
        """A image of one colour that spells its number: the blend spells the blend of numbers."""
        still = {"crop": "none", "brightness": 0, "contrast": 0, "mixup": 1.0}
        values, labels = next(iter(images.reader(augment=True, augmentation=still).training(images.files)))

        np.testing.assert_allclose(values["image"].numpy()[:, 3, 3, 0], labels.numpy() @ np.arange(97), atol=0.51)

    def test_evaluation_has_shares_too_but_of_one_class(self, images: Any) -> None:
        """The loss that training needs is the one that is measured."""
        reader = images.reader(augment=True, augmentation={"mixup": 0.4})
        _, labels = next(iter(reader.evaluation(images.files)))

        np.testing.assert_array_equal(labels.numpy(), np.eye(97)[:16])

    def test_without_augmentation_nothing_is_blended(self, images: Any) -> None:
        """One switch for all that is random."""
        reader = images.reader(augment=False, augmentation={"mixup": 0.4})

        assert not reader.is_soft
        assert reader.training(images.files).element_spec[1] == tf.TensorSpec([None], tf.int64)

    def test_texts_cannot_be_blended(self, texts: Any) -> None:
        """The message says what to set."""
        with pytest.raises(SettingsError, match=r"blend records of one image; these have text: set .* to 0"):
            texts.reader(augment=True, augmentation={"mixup": 0.4}).training(texts.files)

    def test_the_number_of_classes_is_needed(self, images: Any) -> None:
        """Shares of what, else?"""
        with pytest.raises(SettingsError, match="they need the number of classes"):
            replace(images.reader(augment=True, augmentation={"cutmix": 1}), classes=0).training(images.files)


def test_several_features_make_several_inputs(numbers: Any) -> None:
    """A feature of many columns gives its parts compound names, and each its own place in the batch."""
    from components.features.table import Column, TableFeature

    reader = numbers.reader()
    table = TableFeature((Column("number", "int64"), Column("label", "string")))
    several = type(reader)({"table": table, **reader.features}, "label", reader.label_number, reader.settings, 5)
    values, labels = next(iter(several.training(numbers.files)))

    assert {key: (value.shape, value.dtype) for key, value in values.items()} == {
        "table_numbers": ((16, 1), tf.float32),
        "table_strings": ((16, 1), tf.string),
        "number": ((16,), tf.int64),
    }
    assert [f"n{n}".encode() for n in labels.numpy()] == values["table_strings"].numpy()[:, 0].tolist()
