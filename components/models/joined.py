"""Joins one or more encodings into a model with a head.

    encodings ─┬─ one:     ─────────────────────────────────────────────────────────────────┬─► features ─► head
               └─ several: normalized ─► each, and all pairwise products ─► residual network ─┘

Products are needed because one part can invert the meaning of another: the answer to "is it odd?" is the opposite of
the answer to "is it even?". A network over concatenated encodings learns nothing of that kind for many epochs: no part
predicts the label alone, so the gradient is almost zero. Encodings are normalized so that none dominates by its scale.

    inputs = {"image": …, "question": …, "numbers": …}
    build(
        inputs,
        [image.encode(inputs["image"]), text.encode(inputs["question"], 500), table.encode(inputs["numbers"])],
        Classification(2),
    )

The layer before the head is named `features` in every model, so that a trained model can be used as an extractor.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import keras
from keras import layers

from components.models.heads import Head
from components.models.names import AxisNames, Name
from components.models.residual import residual

FEATURES = "features"
_WIDTH, _BLOCKS, _DROPOUT = 128, 2, 0.2
_PARTS, _JOINED = "parts", "joined"


def build(inputs: Mapping[str, keras.KerasTensor], encodings: Sequence[keras.KerasTensor], head: Head) -> keras.Model:
    """Returns an uncompiled model; compile it with `head.loss()` and `head.metrics()`.

    Args:
        inputs: Keras inputs by their names in a batch.
        encodings: [n, width] each, computed from the inputs.
        head: output layer, loss and metrics for the kind of label.
    """
    if not encodings:
        raise ValueError("the model has no encodings; expected at least one: pass one per modality")
    joined = encodings[0] if len(encodings) == 1 else _join(encodings)
    # float32 under any dtype policy: this is the output of an extractor.
    features = layers.Activation("linear", dtype="float32", name=FEATURES)(joined)
    dropped = layers.Dropout(_DROPOUT, name=f"{FEATURES}_dropout")(features)
    return keras.Model(dict(inputs), head.output(dropped), name="model")


def extractor(model: keras.Model) -> keras.Model:
    """Returns the model up to its `features` layer, with the same inputs and shared weights."""
    return keras.Model(model.input, model.get_layer(FEATURES).output, name="extractor")


def names(model: keras.Model) -> dict[str, AxisNames]:
    """Returns the part, or the two parts of a product, that each row of the joined weights reads; for a warm start."""
    joins = [layer for layer in model.layers if layer.name == _PARTS and isinstance(layer, layers.Concatenate)]
    blocks = [block for layer in joins for block in layer.input]
    rows: list[Name] = [(*_read(block), place) for block in blocks for place in range(block.shape[-1])]
    return {f"{_JOINED}_linear/kernel": AxisNames(0, tuple(rows))} if rows else {}


def _read(block: keras.KerasTensor) -> list[str]:
    """Returns the names of the parts that a block of joined values was computed from."""
    layer = _layer(block)
    return [_layer(part).name for part in layer.input] if isinstance(layer, layers.Multiply) else [layer.name]


def _join(encodings: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    """Returns [n, width]."""
    if single := [encoding.name for encoding in encodings if encoding.shape[-1] == 1]:
        raise ValueError(
            f"{', '.join(single)}: width 1, which normalization turns into 0; expected encodings of width 2 or more"
        )
    # In the order of their names, so that a product has the same two names whatever the order of the columns.
    named = sorted((f"part_{_layer(encoding).name}", encoding) for encoding in encodings)
    parts = [_project(encoding, name) for name, encoding in named]
    products = [
        layers.Multiply(name=f"product_{number}")(pair) for number, pair in enumerate(combinations(parts, 2), start=1)
    ]
    return residual(layers.Concatenate(name=_PARTS)(parts + products), _WIDTH, _BLOCKS, _DROPOUT, _JOINED)


def _layer(tensor: keras.KerasTensor) -> keras.Layer:
    """Returns the layer that returned a tensor."""
    return tensor._keras_history.operation  # noqa: SLF001 - Keras has no public way


def _project(encoding: keras.KerasTensor, name: str) -> keras.KerasTensor:
    return layers.Dense(_WIDTH, name=f"{name}_linear")(layers.LayerNormalization(name=f"{name}_norm")(encoding))
