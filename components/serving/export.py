"""Exports the served model: one self-contained SavedModel that plain TensorFlow can load.

serving_default  serialized tf.Examples ─┐                             ┌─► label, all_classes, probabilities
raw              values as clients       ├─► decode, fitted graph ─► model
                 have them              ─┤                             └─► value, if the label is a quantity
features         the same               ─┘   without the head ────────────► features
transformed_features  serialized tf.Examples ─► strings to slice metrics by (TFMA's name), if there are any
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from components import features as modalities
from components.features import Feature
from components.fitting.escaping import escape
from components.models.joined import extractor
from components.pretrained.artifacts import EXTRACTOR, LABELS, PRETRAINED
from components.pretrained.load import EmbeddingModel
from components.storage import durable

SLICES = "transformed_features"
_IMAGE_RANK = 4  # of a batch of images
Outputs = dict[str, tf.Tensor]
# Training runs the same functions without AutoGraph: converting them here would only take time.
_graph = partial(tf.function, autograph=False)


@dataclass(frozen=True)
class ImageEmbedding:
    """How a model that was trained on embeddings serves images: a pretrained model embeds them first."""

    image: str  # column that clients send
    column: str  # column of embeddings that the model reads
    model: EmbeddingModel
    digest: str = ""  # of the pretrained model


class ServedModel(tf.Module):
    """The Keras model, the fitted graph and the class names, as functions that need no Keras to be loaded."""

    def __init__(
        self,
        model: keras.Model,
        features: Mapping[str, Feature],
        classes: Sequence[str],
        fitted: Any,
        embedding: ImageEmbedding | None,
    ) -> None:
        """Tracks the model's weights and the lookup tables of the fitted graph under this module."""
        super().__init__()
        # The layers and not the models: saving a Keras model traces its call once more.
        self.layers = model.layers
        self.predict, self.extract = (partial(each, training=False) for each in (model, extractor(model)))
        self.fitted, self.pretrained = fitted, embedding.model.resource if embedding else None
        self._embedding = embedding
        self._features = dict(features)
        self.weights = {weight.path: weight for weight in model.weights}  # found by name in the checkpoint
        self.columns = arguments(_client_columns(features, embedding))
        self._classes = tf.constant(list(classes), tf.string)

    def predict_examples(self, examples: tf.Tensor) -> Outputs:
        """Returns predictions for serialized tf.Examples."""
        return self._predict(tf.io.parse_example(examples, modalities.spec(self._features)))

    def predict_raw(self, **values: tf.Tensor) -> Outputs:
        """Returns predictions for values as clients have them; for an image, the file's bytes."""
        return self._predict(self._record_columns(values))

    def extract_raw(self, **values: tf.Tensor) -> Outputs:
        """Returns the output of the layer before the head."""
        inputs = modalities.inputs(self._features, self._record_columns(values))
        return {"features": self.extract(inputs)}

    def slice_examples(self, examples: tf.Tensor) -> Outputs:
        """Returns the strings to slice metrics by, for serialized tf.Examples."""
        return modalities.slices(self._features, tf.io.parse_example(examples, modalities.spec(self._features)))

    def _record_columns(self, values: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns a client's values as columns of a record, images embedded if the model reads embeddings."""
        columns, embedding = {self.columns[key]: value for key, value in values.items()}, self._embedding
        if embedding:
            columns[embedding.column] = embedding.model.embed(columns.pop(embedding.image))
        return columns

    def _predict(self, values: Mapping[str, tf.Tensor]) -> Outputs:
        output = self.predict(modalities.inputs(self._features, values))
        if not self._classes.shape[0]:
            return {"value": output[:, 0]}
        return {
            "label": tf.gather(self._classes, tf.argmax(output, axis=-1)),
            "all_classes": tf.tile(self._classes[tf.newaxis], [tf.shape(output)[0], 1]),
            "probabilities": output,
        }


def export(
    model: keras.Model,
    features: Mapping[str, Feature],
    classes: Sequence[str],
    folder: str,
    fitted: Any = None,
    embedding: ImageEmbedding | None = None,
) -> None:
    """Saves the model with its signatures; without classes it predicts a quantity."""
    served = ServedModel(model, features, classes, fitted, embedding)
    columns = _client_columns(features, embedding)
    raw = {key: tf.TensorSpec([None], columns[name].dtype, name=key) for key, name in served.columns.items()}
    examples = tf.TensorSpec([None], tf.string, name="examples")
    signatures = {
        "serving_default": _graph(served.predict_examples).get_concrete_function(examples),
        "raw": _graph(served.predict_raw).get_concrete_function(**raw),
        "features": _graph(served.extract_raw).get_concrete_function(**raw),
    }
    if any(hasattr(feature, "slices") for feature in features.values()):
        signatures[SLICES] = _graph(served.slice_examples).get_concrete_function(examples)
    tf.saved_model.save(served, folder, signatures=signatures)
    if classes and fitted is None:  # otherwise it is an asset of the fitted graph, with the same content
        durable.write_bytes(Path(folder) / LABELS, b"".join(name + b"\n" for name in escape(list(classes)).numpy()))
    if embedding:
        (Path(folder) / PRETRAINED).parent.mkdir(exist_ok=True)
        (Path(folder) / PRETRAINED).write_text(embedding.digest)
    if len(model.inputs) == 1 and len(model.inputs[0].shape) == _IMAGE_RANK:
        _save_extractor(extractor(model), Path(folder) / EXTRACTOR)


def arguments(columns: Iterable[str]) -> dict[str, str]:
    """Returns the columns by their argument names in a signature: TensorFlow allows only letters, digits and _."""
    names: dict[str, str] = {}
    for column in columns:
        plain = re.sub(r"\W", "_", column, flags=re.ASCII)
        wanted = plain if plain[:1].isalpha() else f"column_{plain}"
        numbered = (f"{wanted}_{number}" for number in count(2))
        names[next(name for name in chain([wanted], numbered) if name not in names)] = column
    return names


def client_arguments(features: Mapping[str, Feature], embedding: ImageEmbedding | None) -> dict[str, str]:
    """Returns the columns that clients send, by argument of the signature `raw`."""
    return arguments(_client_columns(features, embedding))


def raw_columns(features: Mapping[str, Feature], embedding: ImageEmbedding | None) -> dict[str, tuple[str, Any]]:
    """Returns by argument of `raw`: its column in the records, and a missing value; none if records hold embeddings."""
    columns = {} if embedding else _client_columns(features, None)
    return {key: (name, columns[name].default_value) for key, name in arguments(columns).items()}


def _client_columns(features: Mapping[str, Feature], embedding: ImageEmbedding | None) -> dict[str, Any]:
    """Returns the feature specs of the columns that clients send, by name."""
    columns = modalities.spec(features)
    if embedding:
        columns[embedding.image] = columns.pop(embedding.column)
    return columns


def _save_extractor(model: keras.Model, path: Path) -> None:
    """Saves the extractor for use as a pretrained model; warns if Keras cannot save it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        model.save(path)
    except (NotImplementedError, TypeError, ValueError) as error:
        path.unlink(missing_ok=True)
        logging.getLogger(__name__).warning(
            "%s was not written, so this model cannot be fine-tuned as a pretrained model: %s", EXTRACTOR, error
        )
