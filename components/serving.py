"""The served model: one SavedModel with all it needs inside, loadable by plain TensorFlow.

serving_default  serialized tf.Examples ─┐
raw              encoded values, as they  ├─► decode ─► model ─► label, all_classes, probabilities
                 come from a client      ─┘
"""

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from components.input_pipeline import Feature

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
        spec = {key: feature.spec() for key, feature in self._features.items()}
        return self._predict(tf.io.parse_example(examples, spec))

    def predict_raw(self, **values: tf.Tensor) -> Outputs:
        """Predicts encoded values: for an image, the bytes of its file."""
        return self._predict(values)

    def _predict(self, values: Mapping[str, tf.Tensor]) -> Outputs:
        inputs = {key: self._decode(feature, values[key]) for key, feature in self._features.items()}
        probabilities = self.model(inputs, training=False)
        rows = tf.shape(probabilities)[0]
        return {
            "label": tf.gather(self._classes, tf.argmax(probabilities, axis=-1)),
            "all_classes": tf.tile(self._classes[tf.newaxis], [rows, 1]),
            "probabilities": probabilities,
        }

    @staticmethod
    def _decode(feature: Feature, values: tf.Tensor) -> tf.Tensor:
        decoded = feature.keras_input("decoded")
        signature = tf.TensorSpec(decoded.shape[1:], decoded.dtype)
        return tf.map_fn(feature.decode, values, fn_output_signature=signature)


def export(model: keras.Model, features: Mapping[str, Feature], classes: Sequence[str], folder: str) -> None:
    """Saves the model with its two signatures."""
    served = Served(model, features, classes)
    raw = {key: tf.TensorSpec([None], feature.spec().dtype, name=key) for key, feature in features.items()}
    examples = tf.TensorSpec([None], tf.string, name="examples")
    signatures = {
        "serving_default": tf.function(served.predict_examples).get_concrete_function(examples),
        "raw": tf.function(served.predict_raw).get_concrete_function(**raw),
    }
    tf.saved_model.save(served, folder, signatures=signatures)
