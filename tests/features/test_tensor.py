"""Arrays are restored from their bytes bit by bit; bytes of another length are rejected."""

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from components.features.tensor import TensorFeature

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
SHAPES = [(), (1,), (5,), (2, 3), (2, 1, 3, 4), (0,), (3, 0)]


def arrays(count: int, shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
    """Returns arrays of random bits: negative, huge, NaN."""
    kind = np.dtype(dtype)
    size = count * int(np.prod(shape)) * kind.itemsize
    bits = np.random.default_rng(size).integers(0, 2 if dtype == "bool" else 256, size, dtype=np.uint8)
    return bits.view(kind).reshape(count, *shape)


def stored(batch: NDArray[np.generic]) -> tf.Tensor:
    """Returns the bytes of each array of a batch, as in records."""
    return tf.constant([array.tobytes() for array in batch], tf.string)


@pytest.mark.parametrize("dtype", DTYPES)
class TestDtypes:
    """All dtypes of NumPy."""

    def test_every_bit_is_restored(self, dtype: str) -> None:
        """Compared as bytes, so that NaN counts too."""
        batch = arrays(4, (3, 5), dtype)

        decoded = TensorFeature((3, 5), dtype).decode(stored(batch))

        assert (decoded.shape, decoded.dtype) == ((4, 3, 5), tf.dtypes.as_dtype(dtype))
        assert decoded.numpy().tobytes() == batch.tobytes()

    def test_tf_data_gives_the_same_with_a_static_shape(self, dtype: str) -> None:
        """Keras needs a known shape."""
        batch = arrays(4, (3, 5), dtype)
        data = tf.data.Dataset.from_tensor_slices(stored(batch)).batch(4).map(TensorFeature((3, 5), dtype).decode)

        (inside,) = data.as_numpy_iterator()

        assert data.element_spec == tf.TensorSpec([None, 3, 5], tf.dtypes.as_dtype(dtype))
        assert inside.tobytes() == batch.tobytes()

    def test_the_memory_is_that_of_numpy(self, dtype: str) -> None:
        """A decoded record has the bytes of its array."""
        assert TensorFeature((3, 5), dtype).decoded_bytes == arrays(1, (3, 5), dtype).nbytes

    def test_the_model_gets_it_unchanged(self, dtype: str) -> None:
        """Shape, dtype and name."""
        declared = TensorFeature((3, 5), dtype).keras_input("array")

        assert (declared.shape, declared.dtype, declared.name) == ((None, 3, 5), dtype, "array")


class TestShapes:
    """All shapes."""

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_axes_are_in_the_order_of_numpy(self, shape: tuple[int, ...]) -> None:
        """From none to four axes."""
        batch = arrays(3, shape, "float32")

        decoded = TensorFeature(shape, "float32").decode(stored(batch))

        np.testing.assert_array_equal(decoded.numpy(), batch)

    def test_an_empty_batch_stays_empty(self) -> None:
        """A filtered batch may be empty."""
        assert TensorFeature((2, 3), "int16").decode(tf.constant([], tf.string)).shape == (0, 2, 3)

    @pytest.mark.parametrize("given", ["float32", "int64"])
    def test_numbers_in_the_record_are_accepted(self, given: str) -> None:
        """They are reshaped and cast, because a record holds flat float32 or int64."""
        numbers = np.arange(12).reshape(2, 6)

        decoded = TensorFeature((2, 3), "uint8").decode(tf.constant(numbers, given))

        assert decoded.dtype == tf.uint8
        np.testing.assert_array_equal(decoded.numpy(), numbers.reshape(2, 2, 3))


class TestLength:
    """Bytes of another length."""

    @pytest.mark.parametrize(
        "lengths",
        [(12, 12, 8), (16, 16), (8, 8), (24, 24), (12, 0), (0, 0), (11, 11)],
        ids=["one short", "all long", "all short", "all double", "one empty", "all empty", "no whole numbers"],
    )
    def test_another_length_is_an_error(self, lengths: tuple[int, ...]) -> None:
        """Of one record or of all."""
        contents = tf.constant([bytes(length) for length in lengths], tf.string)

        with pytest.raises(tf.errors.InvalidArgumentError):
            TensorFeature((3,), "float32").decode(contents)

    @pytest.mark.parametrize("lengths", [(12, 12, 8), (24, 24)], ids=["one short", "all double"])
    def test_it_is_an_error_in_tf_data_too(self, lengths: tuple[int, ...]) -> None:
        """They never become two arrays."""
        contents = tf.constant([bytes(length) for length in lengths], tf.string)
        data = tf.data.Dataset.from_tensors(contents).map(TensorFeature((3,), "float32").decode)

        with pytest.raises(tf.errors.InvalidArgumentError):
            next(iter(data))


def test_there_is_no_augmentation() -> None:
    """Arrays are never changed."""
    feature, batch = TensorFeature((3,), "int16"), arrays(2, (3,), "int16")
    seeds = tf.constant([[1, 1], [2, 1]], tf.int64)

    np.testing.assert_array_equal(feature.augmented(stored(batch), seeds).numpy(), batch)
    np.testing.assert_array_equal(feature.augment(tf.constant(batch), seeds).numpy(), batch)
    np.testing.assert_array_equal(feature.finish(tf.constant(batch)).numpy(), batch)


def test_a_record_holds_it_as_one_string() -> None:
    """Parsed by the feature's own spec."""
    feature, batch = TensorFeature((2, 2), "uint16"), arrays(1, (2, 2), "uint16")
    value = tf.train.Feature(bytes_list=tf.train.BytesList(value=[batch[0].tobytes()]))
    record = tf.train.Example(features=tf.train.Features(feature={"array": value})).SerializeToString()

    parsed = tf.io.parse_example([record], {"array": feature.spec()})

    np.testing.assert_array_equal(feature.decode(parsed["array"]).numpy(), batch)
    assert (feature.is_ragged, feature.is_costly) == (False, False)
