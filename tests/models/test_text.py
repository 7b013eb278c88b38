"""The text encoder depends on tokens and their order, and not on padding."""

from typing import Any

import keras
import numpy as np
import pytest

from components.models import text

VOCABULARY = 50


@pytest.fixture(scope="module")
def encoder() -> Any:
    """A seeded encoder."""
    keras.utils.set_random_seed(3)
    ids = keras.Input([None], dtype="int64")
    return keras.Model(ids, text.encode(ids, VOCABULARY, dimension=8, width=16))


def encoded(encoder: Any, *texts: list[int], length: int = 0) -> Any:
    """Returns the encodings of texts, padded to the longest or to the given length."""
    ids = np.zeros((len(texts), max(length, *map(len, texts), 0)), np.int64)
    for row, words in zip(ids, texts, strict=True):
        row[: len(words)] = words
    return encoder(ids, training=False).numpy()


def test_the_width_is_that_of_embedding_and_convolution(encoder: Any) -> None:
    """One mean of embeddings, mean and maximum of the convolution."""
    assert encoded(encoder, [1, 2], [3]).shape == (2, 8 + 2 * 16)


@pytest.mark.parametrize("length", [6, 1000])
def test_padding_changes_nothing(encoder: Any, length: int) -> None:
    """The encoding does not depend on the other texts of the batch."""
    words = [7, 3, 9, 9, 1]

    np.testing.assert_allclose(encoded(encoder, words, length=length), encoded(encoder, words), atol=1e-6)


def test_padding_changes_nothing_in_training_either() -> None:
    """Without dropout, which is drawn per position, the gradients are the same."""
    keras.utils.set_random_seed(3)
    ids = keras.Input([None], dtype="int64")
    model = keras.Model(ids, keras.layers.Dense(1)(text.encode(ids, VOCABULARY, dimension=8, width=16)))
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    start, trained = model.get_weights(), []
    for length in (4, 40):
        model.set_weights(start)
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.train_on_batch(np.pad([[5, 6, 7, 8]], ((0, 0), (0, length - 4))), np.ones((1, 1)))
        trained.append(model.get_weights())

    for one, other in zip(*trained, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_an_empty_text_is_zeros(encoder: Any) -> None:
    """Also next to other texts, and in a batch of empty texts."""
    zeros = np.zeros((8 + 2 * 16,), np.float32)

    np.testing.assert_array_equal(encoded(encoder, [], [4, 5])[0], zeros)
    np.testing.assert_array_equal(encoded(encoder, [], [])[1], zeros)
    np.testing.assert_array_equal(encoded(encoder, [], length=3)[0], zeros)


def test_the_order_of_tokens_matters(encoder: Any) -> None:
    """The mean of the embeddings is the same, the convolution is not."""
    one, other = encoded(encoder, [4, 5, 6, 7], [7, 4, 6, 5])

    np.testing.assert_allclose(one[:8], other[:8], atol=1e-6)
    assert not np.allclose(one[8:], other[8:], atol=1e-3)


def test_the_encoding_does_not_grow_with_the_length(encoder: Any) -> None:
    """It consists of means and maxima."""
    short, long = encoded(encoder, [4, 5, 6] * 5, [4, 5, 6] * 500)

    np.testing.assert_allclose(short, long, atol=0.02)


def test_an_id_beyond_the_vocabulary_is_an_error(encoder: Any) -> None:
    """It is not mapped to another token."""
    with pytest.raises(Exception, match=f"{VOCABULARY}"):
        encoded(encoder, [VOCABULARY])
