"""The tensor encoder takes any shape and dtype."""

from typing import Any

import keras
import numpy as np
import pytest

from components.models import tensor

DTYPES = ("bool", "int8", "uint16", "uint32", "int64", "float16", "float64")


def encoder(shape: tuple[int, ...], dtype: str = "float32", moments: tuple[Any, Any] | None = None) -> Any:
    """Returns a seeded encoder."""
    keras.utils.set_random_seed(3)
    values = keras.Input(shape, dtype=dtype)
    return keras.Model(values, tensor.encode(values, moments))


@pytest.mark.parametrize(
    ("shape", "width"),
    [
        ((), 128),
        ((784,), 128),
        ((8, 8), 128),
        ((28, 28), 192),
        ((100, 3), 192),
        ((3, 32, 32, 2), 192),
        ((1, 1), 32),
        ((256, 200, 4), 192),
    ],
)
def test_any_shape_is_encoded(shape: tuple[int, ...], width: int) -> None:
    """Up to rank 1 as a row, from rank 2 as an image; the width depends on the number of blocks."""
    found = encoder(shape)(np.random.default_rng(3).normal(size=(2, *shape)).astype(np.float32), training=False)

    assert found.shape == (2, width)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_dtype_is_encoded(dtype: str) -> None:
    """Different records have different encodings."""
    values = np.array([[0, 1, 0, 1], [1, 1, 0, 0]]).astype(dtype)
    one, other = encoder((4,), dtype)(values, training=False).numpy()

    assert not np.allclose(one, other)


@pytest.mark.parametrize("shape", [(6,), (3, 4, 4, 2)])
def test_one_mean_and_variance_normalize_all_values(shape: tuple[int, ...]) -> None:
    """The mean is subtracted, and the result is divided by the standard deviation."""
    values = np.random.default_rng(3).normal(10, 3, (5, *shape)).astype(np.float32)
    plain, given = encoder(shape, moments=(0.0, 1.0)), encoder(shape, moments=(10.0, 9.0))

    np.testing.assert_allclose(given(values), plain((values - 10) / 3), atol=1e-4)


def test_moments_can_be_per_channel() -> None:
    """One mean and variance for each."""
    values = np.random.default_rng(3).normal(size=(5, 4, 4, 2)).astype(np.float32)
    plain, given = encoder((4, 4, 2), moments=(0.0, 1.0)), encoder((4, 4, 2), moments=([1, 2], [4, 9]))

    np.testing.assert_allclose(given(values), plain((values - [1, 2]) / [2, 3]), atol=1e-4)


def test_moments_can_be_per_element() -> None:
    """An element with variance 0 becomes 0."""
    values = np.array([[1.0, 5.0], [3.0, 5.0]], np.float32)
    plain, given = encoder((2,), moments=(0.0, 1.0)), encoder((2,), moments=([2, 5], [4, 0]))

    np.testing.assert_allclose(given(values), plain(np.array([[-0.5, 0], [0.5, 0]])), atol=1e-5)


def test_moments_of_another_shape_are_rejected() -> None:
    """The message has all shapes."""
    with pytest.raises(
        ValueError, match=r"mean has shape \(3,\) and the variance \(3,\), for values of shape \(4, 2\); expected"
    ):
        encoder((4, 2), moments=([1, 2, 3], [1, 2, 3]))


def test_without_moments_batch_normalization_learns_them() -> None:
    """After some steps on large numbers, mean and standard deviation are about 0 and 1."""
    values = np.random.default_rng(3).normal(5000, 100, (64, 6)).astype(np.float32)
    model = encoder((6,))
    (learned,) = (layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization))
    normalized = keras.Model(model.input, learned.output)
    for _ in range(100):
        normalized(values, training=True)
    found = normalized(values, training=False).numpy()

    np.testing.assert_allclose([found.mean(), found.std()], [0, 1], atol=0.05)


def test_large_integers_keep_their_differences_in_float16() -> None:
    """They are normalized before they are rounded."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = encoder((2,), "int64", (1_000_000.0, 25.0))
    finally:
        keras.config.set_dtype_policy("float32")
    one, other = model(np.array([[1_000_000, 1_000_003], [1_000_002, 999_999]])).numpy()

    assert np.isfinite(one).all()
    assert not np.allclose(one, other, atol=0.1)


def test_leading_dimensions_become_channels() -> None:
    """All values at one position are channels of that position."""
    model = encoder((3, 4, 5, 2), moments=(0.0, 1.0))
    (stacked,) = (layer for layer in model.layers if isinstance(layer, keras.layers.Reshape))
    values = np.arange(120, dtype=np.float32).reshape(1, 3, 4, 5, 2)

    found = keras.Model(model.input, stacked.output)(values).numpy()
    np.testing.assert_array_equal(found[0, 1, 2], values[0, :, 1, 2, :].ravel())


def test_an_unknown_dimension_is_rejected() -> None:
    """The message has the shape."""
    with pytest.raises(ValueError, match=r"the tensor\'s shape is \(None, 3\); expected fixed dimensions"):
        tensor.encode(keras.Input([None, 3]))
