"""Text encoder: the mean of the token embeddings, and a convolution over runs of three tokens.

    ids [n, length], 0 is padding ─► embedding ─┬─► mean                      the topic, for texts of any length
                                                └─► convolution ─► mean, max  phrases, at any position

Padding is masked at every step, so the result does not depend on the length of the other texts of a batch. An empty
text is all padding and is encoded as zeros.
"""

from collections.abc import Mapping, Sequence

import keras
from keras import layers, ops

from components.features import FittedGraph
from components.models.names import AxisNames, layer_name
from components.records.roles import Column

PADDING = 0
_KERNEL = 3  # tokens per convolution window
_DROPOUT = 0.2  # fraction of tokens dropped as a whole in training, so that no single token decides


def encode(
    ids: keras.KerasTensor, vocabulary: int, dimension: int = 64, width: int = 128, name: str = "text"
) -> keras.KerasTensor:
    """Returns [n, dimension + 2 * width], in float32 under any dtype policy.

    Args:
        ids: integers [n, length], padded with 0 at the end.
        vocabulary: number of ids, including the 0 of padding and the out-of-vocabulary buckets.
        dimension: width of an embedding.
        width: number of filters of the convolution.
        name: prefix of the layer names.
    """
    # One padding position more, so that the mean and the maximum are defined for a batch of empty texts.
    ids = ops.pad(ids, ((0, 0), (0, 1)))
    present = ops.expand_dims(ops.cast(ops.not_equal(ids, PADDING), "float32"), axis=-1)
    tokens = layers.Embedding(vocabulary, dimension, name=f"{name}_embedding")(ids)
    tokens = layers.Dropout(_DROPOUT, noise_shape=(None, None, 1), name=f"{name}_dropout")(tokens)
    # Zeros after the text are also what the convolution pads with.
    tokens = layers.Multiply(name=f"{name}_masked")([tokens, present])
    runs = layers.Conv1D(width, _KERNEL, padding="same", activation="relu", name=f"{name}_conv")(tokens)
    runs = ops.cast(runs, "float32") * present
    # ReLU outputs are not negative, so the zeros of padding do not change the maximum.
    parts = [_mean(tokens, present), _mean(runs, present), ops.max(runs, axis=1)]
    return layers.Concatenate(dtype="float32", name=f"{name}_encoding")(parts)


def encodings(
    inputs: Mapping[str, keras.KerasTensor], columns: Sequence[Column], fitted: FittedGraph
) -> list[keras.KerasTensor]:
    """Returns one encoding per text column."""
    return [
        encode(inputs[column.name], 1 + len(fitted.tokens(place)), name=layer_name("text", column.name))
        for place, column in enumerate(columns)
    ]


def names(columns: Sequence[Column], fitted: FittedGraph) -> dict[str, AxisNames]:
    """Returns the token of each row of the embeddings, for a warm start."""
    return {
        f"{layer_name('text', column.name)}_embedding/embeddings": AxisNames(0, (("padding",), *fitted.tokens(place)))
        for place, column in enumerate(columns)
    }


def _mean(x: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the mean over the tokens that are present; in float32, because the sum over a long text is large."""
    return ops.sum(ops.cast(x, "float32"), axis=1) / ops.maximum(ops.sum(present, axis=1), 1.0)
