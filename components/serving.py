"""The served model: one SavedModel with all it needs inside, loadable by plain TensorFlow.

serving_default  serialized tf.Examples ─┐
raw              encoded values, as they  ├─► decode ─► model ─► label, all_classes, probabilities
                 come from a client      ─┘
"""

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from components import features as modalities
from components.features import Feature

Outputs = dict[str, tf.Tensor]


class Served(tf.Module):
    """Holds the Keras model and the class names; Keras itself is not needed to load it."""

    def __init__(self, model: keras.Model, features: Mapping[str, Feature], classes: Sequence[str]) -> None:
        """Tracks the model's weights under this module."""
        super().__init__()
        self.model = model
        self._features = dict(features)
        self._classes = tf.constant(list(classes))

    def predict_examples(self, examples: tf.Tensor) -> Outputs:
        """Predicts serialized tf.Examples."""
        return self._predict(tf.io.parse_example(examples, modalities.spec(self._features)))

    def predict_raw(self, **values: tf.Tensor) -> Outputs:
        """Predicts encoded values: for an image, the bytes of its file."""
        return self._predict(values)

    def _predict(self, values: Mapping[str, tf.Tensor]) -> Outputs:
        probabilities = self.model(modalities.inputs(self._features, values), training=False)
        rows = tf.shape(probabilities)[0]
        return {
            "label": tf.gather(self._classes, tf.argmax(probabilities, axis=-1)),
            "all_classes": tf.tile(self._classes[tf.newaxis], [rows, 1]),
            "probabilities": probabilities,
        }


def export(model: keras.Model, features: Mapping[str, Feature], classes: Sequence[str], folder: str) -> None:
    """Saves the model with its two signatures."""
    served = Served(model, features, classes)
    raw = {key: tf.TensorSpec([None], stands.dtype, name=key) for key, stands in modalities.spec(features).items()}
    examples = tf.TensorSpec([None], tf.string, name="examples")
    signatures = {
        "serving_default": tf.function(served.predict_examples).get_concrete_function(examples),
        "raw": tf.function(served.predict_raw).get_concrete_function(**raw),
    }
    tf.saved_model.save(served, folder, signatures=signatures)
