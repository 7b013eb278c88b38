"""Residual dense network for table rows, flat tensors and joined encodings."""

import keras
from keras import layers


def residual(x: keras.KerasTensor, width: int, blocks: int, dropout: float, name: str) -> keras.KerasTensor:
    """Returns [n, width]: a linear map of all inputs (wide) plus what the blocks add to it (deep).

    Args:
        x: [n, any width].
        width: width of the result and of every block.
        blocks: number of residual blocks.
        dropout: dropout rate inside the blocks.
        name: prefix of the layer names.
    """
    x = layers.Dense(width, name=f"{name}_linear")(x)
    for number in range(1, blocks + 1):
        block = f"{name}_block_{number}"
        added = layers.LayerNormalization(name=f"{block}_norm")(x)
        added = layers.Dense(width, activation="relu", name=f"{block}_hidden")(added)
        added = layers.Dropout(dropout, name=f"{block}_dropout")(added)
        x = layers.Add(name=f"{block}_sum")([x, layers.Dense(width, name=f"{block}_output")(added)])
    return layers.LayerNormalization(name=f"{name}_output_norm")(x)
