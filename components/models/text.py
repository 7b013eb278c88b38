"""Texts: an embedding for each word, its mean over the text, and what runs of three words say.

    ids [n, length], 0 is padding ─► embedding ─┬─► mean                     what the text is about, however long
                                                └─► convolution ─► mean, max  a phrase counts wherever it stands

Padding is masked at every step: how long the other texts of a batch are does not change the result. An empty text is
all padding, and is encoded as zeros.
"""

from collections.abc import Mapping, Sequence

import keras
from keras import layers, ops

from components.models import Fitted
from components.records.roles import Column

PADDING = 0
_RUN = 3  # words seen together
_DROPPED = 0.2  # of the words, whole, in training: no single one must decide


def encode(ids: keras.KerasTensor, vocabulary: int, dimension: int = 64, width: int = 128) -> keras.KerasTensor:
    """Returns [n, dimension + 2 * width], in float32 whatever the policy is.

    Args:
        ids: integers [n, length], of any length, padded with 0 at the end.
        vocabulary: how many ids there are, the 0 of padding and those of unknown words included.
        dimension: of an embedding.
        width: of the convolution.
    """
    # One more, so that no text is without length: then there is always something to take a mean and a maximum of.
    ids = ops.pad(ids, ((0, 0), (0, 1)))
    present = ops.expand_dims(ops.cast(ops.not_equal(ids, PADDING), "float32"), axis=-1)
    words = layers.Embedding(vocabulary, dimension)(ids)
    words = layers.Dropout(_DROPPED, noise_shape=(None, None, 1))(words)
    # Zeros behind a text are what the convolution itself takes to be there.
    words = layers.Multiply()([words, present])
    runs = layers.Conv1D(width, _RUN, padding="same", activation="relu")(words)
    runs = ops.cast(runs, "float32") * present
    # No run is below zero, so the zeros of padding do not change the maximum.
    return layers.Concatenate(dtype="float32")([_mean(words, present), _mean(runs, present), ops.max(runs, axis=1)])


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: Fitted
) -> list[keras.KerasTensor]:
    """Returns the encoding of every text of a record."""
    return [encode(inputs[column.name], 1 + fitted.tokens(place)) for place, column in enumerate(columns)]


def _mean(x: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the mean over what is present; in float32, for a sum over a long text is large."""
    return ops.sum(ops.cast(x, "float32"), axis=1) / ops.maximum(ops.sum(present, axis=1), 1.0)
