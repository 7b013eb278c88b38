"""One model of several encoders, or of one: encodings side by side, a small network over them, a head.

    inputs ─► encodings ─┬─ one:     ────────────────────────┬─► features ─► head
                         └─ several: joined ─► residual net ─┘

    inputs = {"image": …, "question": …, "numbers": …}
    build(
        inputs,
        [image.encode(inputs["image"]), text.encode(inputs["question"], 500), table.encode(inputs["numbers"])],
        Classification(2),
    )

The layer before the head is called `features` in every model, so that a trained one can serve as an extractor.
"""

from collections.abc import Mapping, Sequence

import keras
from keras import layers

from components.models.heads import Head
from components.models.residual import residual

FEATURES = "features"
_WIDTH, _BLOCKS, _DROPOUT = 128, 2, 0.2


def build(inputs: Mapping[str, keras.KerasTensor], encodings: Sequence[keras.KerasTensor], head: Head) -> keras.Model:
    """Returns an uncompiled model; `head.loss()` and `head.metrics()` are what to compile it with.

    Args:
        inputs: by the names under which a batch has them.
        encodings: [n, width] each, made from the inputs.
        head: what the label is.
    """
    if not encodings:
        raise ValueError("a model without encodings; expected one of each modality")
    joined = encodings[0] if len(encodings) == 1 else _join(encodings)
    # float32 whatever the policy is: this is what an extractor hands out.
    features = layers.Activation("linear", dtype="float32", name=FEATURES)(joined)
    return keras.Model(dict(inputs), head.output(layers.Dropout(_DROPOUT)(features)))


def extractor(model: keras.Model) -> keras.Model:
    """Returns the model up to its features, with the same inputs and the very same weights."""
    return keras.Model(model.input, model.get_layer(FEATURES).output)


def _join(encodings: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    return residual(layers.Concatenate()(list(encodings)), _WIDTH, _BLOCKS, _DROPOUT)
