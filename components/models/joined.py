"""One model of several encoders, or of one: encodings and what they make of each other, a small network, a head.

    encodings ─┬─ one:     ─────────────────────────────────────────────────────────────────────┬─► features ─► head
               └─ several: normalised ─► each, and the products of any two ─► residual network ─┘

Products, because one part may turn the meaning of another round: odd is the answer to "is it odd?" and the opposite to
"is it even?". A network over a mere row of encodings learns nothing of that kind for many epochs; none of the parts
has anything to say alone, so there is no slope to go down. Normalised, because the loudest would drown the others.

    inputs = {"image": …, "question": …, "numbers": …}
    build(
        inputs,
        [image.encode(inputs["image"]), text.encode(inputs["question"], 500), table.encode(inputs["numbers"])],
        Classification(2),
    )

The layer before the head is called `features` in every model, so that a trained one can serve as an extractor.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

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
    """Returns [n, width]."""
    if lone := [encoding.name for encoding in encodings if encoding.shape[-1] == 1]:
        raise ValueError(
            f"{', '.join(lone)}: one number is nothing but 0 when normalised; expected encodings of several"
        )
    parts = [layers.Dense(_WIDTH)(layers.LayerNormalization()(encoding)) for encoding in encodings]
    products = [layers.Multiply()(pair) for pair in combinations(parts, 2)]
    return residual(layers.Concatenate()(parts + products), _WIDTH, _BLOCKS, _DROPOUT)
