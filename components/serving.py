"""The served model: one SavedModel with all it needs inside, loadable by plain TensorFlow.

serving_default  serialized tf.Examples ─┐                             ┌─► label, all_classes, probabilities
raw              values as they come      ├─► decode, fitted graph ─► model
                 from a client           ─┤                             └─► value, where the label is a quantity
features         the same                ─┘   without its last layer ─────► features
transformed_features, if there is something to tell: by what an evaluation looks at records apart (TFMA finds it by name)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from components import features as modalities
from components.features import Feature
from components.models.joined import extractor

SLICES = "transformed_features"
Outputs = dict[str, tf.Tensor]


class Served(tf.Module):
    """Holds the Keras model, what was fitted and the class names; Keras itself is not needed to load it."""

    def __init__(
        self, model: keras.Model, features: Mapping[str, Feature], classes: Sequence[str], fitted: Any = None
    ) -> None:
        """Tracks the model's weights, and the tables of the fitted graph, under this module."""
        super().__init__()
        self.model, self.extractor = model, extractor(model)
        self.fitted = fitted
        self._features = dict(features)
        self._classes = tf.constant(list(classes), tf.string)

    def predict_examples(self, examples: tf.Tensor) -> Outputs:
        """Predicts serialized tf.Examples."""
        return self._predict(tf.io.parse_example(examples, modalities.spec(self._features)))

    def predict_raw(self, **values: tf.Tensor) -> Outputs:
        """Predicts values as clients have them: for an image, the bytes of its file."""
        return self._predict(values)

    def extract_raw(self, **values: tf.Tensor) -> Outputs:
        """Returns what the last layer would see."""
        return {"features": self.extractor(modalities.inputs(self._features, values), training=False)}

    def slice_examples(self, examples: tf.Tensor) -> Outputs:
        """Returns by what serialized tf.Examples can be looked at apart."""
        return modalities.slices(self._features, tf.io.parse_example(examples, modalities.spec(self._features)))

    def _predict(self, values: Mapping[str, tf.Tensor]) -> Outputs:
        found = self.model(modalities.inputs(self._features, values), training=False)
        if not self._classes.shape[0]:
            return {"value": found[:, 0]}
        rows = tf.shape(found)[0]
        return {
            "label": tf.gather(self._classes, tf.argmax(found, axis=-1)),
            "all_classes": tf.tile(self._classes[tf.newaxis], [rows, 1]),
            "probabilities": found,
        }


def export(
    model: keras.Model, features: Mapping[str, Feature], classes: Sequence[str], folder: str, fitted: Any = None
) -> None:
    """Saves the model with its signatures; without classes its answer is a quantity."""
    served = Served(model, features, classes, fitted)
    columns = modalities.spec(features)
    raw = {key: tf.TensorSpec([None], stands.dtype, name=key) for key, stands in columns.items()}
    examples = tf.TensorSpec([None], tf.string, name="examples")
    signatures = {
        "serving_default": tf.function(served.predict_examples).get_concrete_function(examples),
        "raw": tf.function(served.predict_raw).get_concrete_function(**raw),
        "features": tf.function(served.extract_raw).get_concrete_function(**raw),
    }
    if any(hasattr(feature, "slices") for feature in features.values()):
        signatures[SLICES] = tf.function(served.slice_examples).get_concrete_function(examples)
    tf.saved_model.save(served, folder, signatures=signatures)
