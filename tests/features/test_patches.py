"""Erase paints one rectangle of one color; labels of a mixture have the proportions of its pixels."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from components.features import patches
from components.settings.input import Augmentation

Mixture = tuple[NDArray[np.uint8], NDArray[np.float32]]

SIDE = 20
MANY = 400  # images for statistics
COUNT = 64  # images in a mixed batch


def erased(count: int = MANY, side: int = SIDE, **how: Any) -> NDArray[np.uint8]:
    """Returns black images with erased rectangles."""
    drawn = np.random.default_rng(3).random((count, patches.NUMBERS), dtype=np.float32)
    found: NDArray[np.uint8] = patches.erase(
        tf.zeros([count, side, side, 3], tf.uint8), tf.constant(drawn), Augmentation(**how)
    ).numpy()
    return found


def mixtures(seeds: Iterable[int], **how: float) -> list[Mixture]:
    """Mixes one batch per seed, inside tf.data: uniform images of gray 0, 2, 4 …, each with its own class."""
    setting = Augmentation(**how)

    def mix(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pixels = tf.tile(tf.range(0, 2 * COUNT, 2, tf.int32)[:, None, None, None], [1, SIDE, SIDE, 3])
        numbers = tf.stack([tf.range(COUNT, dtype=tf.int64) + seed, tf.ones(COUNT, tf.int64)], axis=1)
        return patches.mix(tf.cast(pixels, tf.uint8), tf.eye(COUNT), numbers, setting)

    data = tf.data.Dataset.from_tensor_slices(tf.constant(list(seeds), tf.int64)).map(mix)
    return list(data.as_numpy_iterator())


def mixed(seed: int = 5, **how: float) -> Mixture:
    """Mixes one batch."""
    return mixtures([seed], **how)[0]


def own(shares: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the probability of each record's own class; all else must be its neighbour's."""
    kept = np.diagonal(shares)
    np.testing.assert_allclose(shares, np.diag(kept) + np.roll(np.diag(1 - kept), 1, axis=1), atol=1e-6)
    return kept


class TestErase:
    """A rectangle is painted over."""

    def test_it_is_one_rectangle_of_one_color(self) -> None:
        """Inside the image; everything else is unchanged."""
        for image in erased(100, erase=1):
            rows, columns = (np.flatnonzero(image.any(axis=axes)) for axes in ((1, 2), (0, 2)))
            expected = np.zeros_like(image)
            expected[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = image[rows[0], columns[0]]
            np.testing.assert_array_equal(image, expected)

    def test_it_is_done_as_often_as_set(self) -> None:
        """A quarter of the images, within four standard deviations."""
        share = erased(erase=0.25).any(axis=(1, 2, 3)).mean()

        assert share == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / MANY) ** 0.5)

    def test_zero_changes_no_image(self) -> None:
        """Whatever is drawn."""
        assert not erased(erase=0).any()

    def test_its_area_is_uniform(self) -> None:
        """From a fiftieth to the setting; sides are whole pixels, up to those of the image."""
        area = erased(side=64, erase=1, erase_area=0.3).any(axis=3).mean(axis=(1, 2))

        assert 0.015 < area.min() < 0.03
        assert 0.28 < area.max() < 0.32
        assert area.mean() == pytest.approx(0.16, abs=0.02)

    def test_the_area_may_be_less_than_a_fiftieth(self) -> None:
        """Then it is constant."""
        area = erased(100, side=64, erase=1, erase_area=0.01).any(axis=3).mean(axis=(1, 2))

        assert 0.006 < area.min() <= area.max() < 0.014

    @pytest.mark.parametrize(("drawn", "corner"), [(0.0, 0), (1 - 2**-24, SIDE - 1)])
    def test_the_rectangle_may_be_anywhere_in_the_image(self, drawn: float, corner: int) -> None:
        """The smallest number gives the first corner, the largest the last."""
        numbers = tf.constant([[0, 0.5, 0.5, drawn, drawn, 0.9, 0.9, 0.9]])

        (found,) = patches.erase(tf.zeros([1, SIDE, SIDE, 3], tf.uint8), numbers, Augmentation(erase=1))

        assert found[corner, corner].numpy().tolist() == [230, 230, 230]

    def test_every_position_is_equally_likely(self) -> None:
        """The first and the last included: a rectangle of half the side has eleven positions."""
        places = tf.stack([tf.linspace(0.0, 1 - 2**-24, 1100)] * 2, axis=1)
        boxes = patches._boxes(tf.zeros([1100, SIDE, SIDE, 3]), places, tf.fill([1100, 2], 0.5)).numpy()

        assert np.bincount(boxes[:, 0]).tolist() == pytest.approx([100] * 11, abs=1)

    def test_the_color_is_drawn_per_channel(self) -> None:
        """From the whole range."""
        colors = erased(erase=1).reshape(MANY, -1, 3).max(axis=1).astype(float)

        assert colors.mean(axis=0) == pytest.approx([127.5] * 3, abs=15)
        assert np.abs(np.corrcoef(colors.T) - np.eye(3)).max() < 0.2


class TestMixup:
    """Two images are mixed."""

    def test_pixels_and_labels_are_mixed_in_the_same_proportion(self) -> None:
        """With the next image, and the last with the first."""
        images, shares = mixed(mixup=0.4)

        values = np.arange(0, 2 * COUNT, 2)
        blended = own(shares) * values + (1 - own(shares)) * np.roll(values, -1)
        assert (images.min(axis=(1, 2, 3)) == images.max(axis=(1, 2, 3))).all()
        np.testing.assert_allclose(images[:, 0, 0, 0], blended, atol=0.51)

    @pytest.mark.parametrize("alpha", [0.2, 1.0, 8.0])
    def test_the_proportion_has_a_beta_distribution(self, alpha: float) -> None:
        """Symmetric about a half, with the variance of alpha."""
        kept = np.concatenate([own(shares) for _, shares in mixtures(range(6), mixup=alpha)])

        assert kept.mean() == pytest.approx(0.5, abs=0.1)
        assert kept.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.3)

    def test_a_tiny_alpha_does_not_mix(self) -> None:
        """No NaN if both gamma variates underflow."""
        kept = own(mixed(mixup=1e-6)[1])

        assert set(np.round(kept, 6)) <= {0.0, 1.0}


class TestCutmix:
    """A part of another image is pasted."""

    def test_labels_have_the_proportion_of_the_pixels(self) -> None:
        """Counted pixels, not the drawn proportion: sides are whole pixels."""
        images, shares = mixed(cutmix=1)

        values = np.arange(0, 2 * COUNT, 2)
        mine = (images == values[:, None, None, None]).mean(axis=(1, 2, 3))
        other = (images == np.roll(values, -1)[:, None, None, None]).mean(axis=(1, 2, 3))
        np.testing.assert_allclose(mine + other, 1)
        np.testing.assert_allclose(own(shares), mine, atol=1e-6)

    def test_the_part_is_one_square(self) -> None:
        """As the image is."""
        images, _ = mixed(cutmix=1)

        for image, value in zip(images[..., 0], range(0, 2 * COUNT, 2), strict=True):
            rows, columns = (np.flatnonzero((image != value).any(axis=axis)) for axis in (1, 0))
            assert len(rows) == len(columns)
            if rows.size:
                assert (image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] != value).all()

    def test_the_part_has_the_same_position_in_both_images(self) -> None:
        """It is neither moved nor resized."""
        pixels = np.random.default_rng(4).integers(0, 256, (8, SIDE, SIDE, 3), dtype=np.uint8)
        seeds = tf.constant([[1, 1]] * 8, tf.int64)

        found, _ = patches.mix(tf.constant(pixels), tf.eye(8), seeds, Augmentation(cutmix=1))

        assert ((found.numpy() == pixels) | (found.numpy() == np.roll(pixels, -1, axis=0))).all()

    def test_the_proportion_is_uniform_for_an_alpha_of_one(self) -> None:
        """Over several batches."""
        kept = np.concatenate([own(shares) for _, shares in mixtures(range(6), cutmix=1)])

        assert kept.mean() == pytest.approx(0.5, abs=0.06)
        assert kept.std() == pytest.approx(12**-0.5, rel=0.15)


class TestBoth:
    """Both kinds of mixing."""

    HOWS = ({"mixup": 0.4}, {"cutmix": 1.0}, {"mixup": 0.4, "cutmix": 1.0})

    def test_with_both_set_each_batch_uses_one_of_them(self) -> None:
        """About half of the batches each; cutmix of even grays has no odd gray."""
        cut = [not (images % 2).any() for images, _ in mixtures(range(24), mixup=8, cutmix=1)]

        assert 4 <= sum(cut) <= 20

    @pytest.mark.parametrize("how", HOWS, ids=str)
    def test_one_seed_gives_the_same_mixture(self, how: dict[str, float]) -> None:
        """There is no state between calls."""
        (images, shares), (again, shares_again) = mixtures([7, 7], **how)

        np.testing.assert_array_equal(images, again)
        np.testing.assert_array_equal(shares, shares_again)

    @pytest.mark.parametrize("how", HOWS, ids=str)
    def test_another_seed_gives_another_mixture(self, how: dict[str, float]) -> None:
        """The seed of the first record counts."""
        (_, shares), (_, others) = mixtures([7, 8], **how)

        assert (shares != others).any()

    @pytest.mark.parametrize("how", HOWS, ids=str)
    def test_a_single_record_is_mixed_with_itself(self, how: dict[str, float]) -> None:
        """The last batch of an epoch may have only one."""
        pixels = np.random.default_rng(4).integers(0, 256, (1, SIDE, SIDE, 3), dtype=np.uint8)

        found, shares = patches.mix(
            tf.constant(pixels), tf.ones([1, 1]), tf.ones([1, 2], tf.int64), Augmentation(**how)
        )

        np.testing.assert_array_equal(found.numpy(), pixels)
        np.testing.assert_allclose(shares.numpy(), [[1]], atol=1e-6)

    @pytest.mark.parametrize("how", HOWS, ids=str)
    def test_tf_data_gives_the_mixture_of_eager_calls(self, how: dict[str, float]) -> None:
        """With static shapes, apart from the number of records."""
        pixels = np.random.default_rng(4).integers(0, 256, (8, SIDE, SIDE, 3), dtype=np.uint8)
        seeds, setting = tf.constant([[3, record] for record in range(8)], tf.int64), Augmentation(**how)
        data = tf.data.Dataset.from_tensor_slices((pixels, tf.eye(8), seeds)).batch(8)
        data = data.map(lambda images, shares, numbers: patches.mix(images, shares, numbers, setting))

        ((inside, inside_shares),) = data.as_numpy_iterator()
        found, shares = patches.mix(tf.constant(pixels), tf.eye(8), seeds, setting)

        assert data.element_spec[0] == tf.TensorSpec([None, SIDE, SIDE, 3], tf.uint8)
        assert np.abs(inside.astype(int) - found.numpy().astype(int)).max() <= 1
        np.testing.assert_allclose(inside_shares, shares.numpy(), atol=1e-6)
