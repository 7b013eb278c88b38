"""What tables, flat tensors and joined encodings share: a linear way through, and blocks that add to it."""

import keras
from keras import layers


def residual(x: keras.KerasTensor, width: int, blocks: int, dropout: float) -> keras.KerasTensor:
    """Returns [n, width]: wide (the linear map of all inputs) and deep (what the blocks add) in one.

    Args:
        x: [n, anything].
        width: of the result.
        blocks: each sees all that was added before it.
        dropout: inside of the blocks.
    """
    x = layers.Dense(width)(x)
    for _ in range(blocks):
        added = layers.LayerNormalization()(x)
        added = layers.Dense(width, activation="relu")(added)
        added = layers.Dropout(dropout)(added)
        x = layers.Add()([x, layers.Dense(width)(added)])
    return layers.LayerNormalization()(x)
