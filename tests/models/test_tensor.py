"""The encoder of tensors takes any shape and any kind of number."""

from typing import Any

import keras
import numpy as np
import pytest

from components.models import tensor
from components.models.tensor import Moments

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64")


def encoder(shape: tuple[int, ...], dtype: str = "float32", moments: Moments | None = None) -> Any:
    """Returns a seeded encoder."""
    keras.utils.set_random_seed(3)
    values = keras.Input(shape, dtype=dtype)
    return keras.Model(values, tensor.encode(values, moments))


@pytest.mark.parametrize(
    ("shape", "width"),
    [
        ((), 128),
        ((1,), 128),
        ((784,), 128),
        ((8, 8), 128),
        ((28, 28), 192),
        ((28, 28, 1), 192),
        ((100, 3), 192),
        ((3, 32, 32, 2), 192),
        ((2, 3, 8, 8, 1), 128),
        ((1, 1), 32),
        ((256, 200, 4), 192),
    ],
)
def test_any_shape_is_encoded(shape: tuple[int, ...], width: int) -> None:
    """As a row up to one side, as a image from two on, as wide as the halvings make it."""
    found = encoder(shape)(np.random.default_rng(3).normal(size=(2, *shape)).astype(np.float32), training=False)

    assert found.shape == (2, width)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_kind_of_number_is_encoded(dtype: str) -> None:
    """Two records that differ are encoded as different."""
    values = np.array([[0, 1, 0, 1], [1, 1, 0, 0]]).astype(dtype)
    one, other = encoder((4,), dtype)(values, training=False).numpy()

    assert not np.allclose(one, other)


@pytest.mark.parametrize("shape", [(6,), (4, 4), (4, 4, 2), (3, 4, 4, 2)])
def test_one_pair_of_moments_normalises_all(shape: tuple[int, ...]) -> None:
    """The mean is taken off, the deviation is divided by."""
    values = np.random.default_rng(3).normal(10, 3, (5, *shape)).astype(np.float32)
    plain, given = encoder(shape, moments=Moments(0.0, 1.0)), encoder(shape, moments=Moments(10.0, 9.0))

    np.testing.assert_allclose(given(values), plain((values - 10) / 3), atol=1e-4)


def test_moments_may_be_those_of_channels() -> None:
    """One of each a channel."""
    values = np.random.default_rng(3).normal(size=(5, 4, 4, 2)).astype(np.float32)
    plain, given = encoder((4, 4, 2), moments=Moments(0.0, 1.0)), encoder((4, 4, 2), moments=Moments([1, 2], [4, 9]))

    np.testing.assert_allclose(given(values), plain((values - [1, 2]) / [2, 3]), atol=1e-4)


def test_moments_may_be_those_of_elements() -> None:
    """One of each an element, as Transform fits them; where nothing varies, nothing is divided by."""
    values = np.array([[1.0, 5.0], [3.0, 5.0]], np.float32)
    plain, given = encoder((2,), moments=Moments(0.0, 1.0)), encoder((2,), moments=Moments([2, 5], [4, 0]))

    np.testing.assert_allclose(given(values), plain(np.array([[-0.5, 0], [0.5, 0]])), atol=1e-5)


def test_moments_of_another_shape_are_refused() -> None:
    """The message tells both shapes."""
    with pytest.raises(ValueError, match=r"moments of shape \(3,\) and \(3,\) for values of shape \(4, 2\); expected"):
        encoder((4, 2), moments=Moments([1, 2, 3], [1, 2, 3]))


def test_without_moments_they_are_learned() -> None:
    """After some steps on large numbers what goes into the network is about nought."""
    values = np.random.default_rng(3).normal(5000, 100, (64, 6)).astype(np.float32)
    model = encoder((6,))
    (learned,) = (layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization))
    normalised = keras.Model(model.input, learned.output)
    for _ in range(100):
        normalised(values, training=True)
    found = normalised(values, training=False).numpy()

    np.testing.assert_allclose([found.mean(), found.std()], [0, 1], atol=0.05)


def test_large_integers_keep_their_differences_in_half_precision() -> None:
    """They are normalised before they are rounded."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = encoder((2,), "int64", Moments(1_000_000.0, 25.0))
    finally:
        keras.config.set_dtype_policy("float32")
    one, other = model(np.array([[1_000_000, 1_000_003], [1_000_002, 999_999]])).numpy()

    assert np.isfinite(one).all()
    assert not np.allclose(one, other, atol=0.1)


def test_the_layers_of_a_volume_are_channels() -> None:
    """What stands at one place in any of them is seen together, each by weights of its own."""
    model = encoder((3, 4, 5, 2), moments=Moments(0.0, 1.0))
    (stacked,) = (layer for layer in model.layers if isinstance(layer, keras.layers.Reshape))
    values = np.arange(120, dtype=np.float32).reshape(1, 3, 4, 5, 2)

    found = keras.Model(model.input, stacked.output)(values).numpy()
    np.testing.assert_array_equal(found[0, 1, 2], values[0, :, 1, 2, :].ravel())


def test_a_side_that_is_not_known_is_refused() -> None:
    """A model has a fixed shape."""
    with pytest.raises(ValueError, match=r"a tensor of shape \(None, 3\) has a side that is not known"):
        tensor.encode(keras.Input([None, 3]))
