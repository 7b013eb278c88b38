"""The served model: one SavedModel with all it needs inside, loadable by plain TensorFlow.

serving_default  serialized tf.Examples ─┐                             ┌─► label, all_classes, probabilities
raw              values as they come      ├─► decode, fitted graph ─► model
                 from a client           ─┤                             └─► value, where the label is a quantity
features         the same                ─┘   without its last layer ─────► features
transformed_features, if there is something to tell: by what an evaluation looks at records apart (TFMA calls it so)
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from components import features as modalities
from components.features import Feature
from components.models.joined import extractor
from components.pretrained.extractor import INSIDE, LOOKED_AT_BY, Loaded

SLICES = "transformed_features"
_IMAGE = 4  # sides of a batch of them
Outputs = dict[str, tf.Tensor]


@dataclass(frozen=True)
class Looks:
    """A pretrained network in front of the model: training saw its vectors, clients have images."""

    image: str
    vectors: str
    network: Loaded
    digest: str = ""  # of the network


class Served(tf.Module):
    """Holds the Keras model, what was fitted and the class names; Keras itself is not needed to load it."""

    def __init__(
        self,
        model: keras.Model,
        features: Mapping[str, Feature],
        classes: Sequence[str],
        fitted: Any,
        looks: Looks | None,
    ) -> None:
        """Tracks the model's weights, and the tables of the fitted graph, under this module."""
        super().__init__()
        self.model, self.extractor = model, extractor(model)
        self.fitted, self.network = fitted, looks.network.held if looks else None
        self._looks = looks
        self._features = dict(features)
        self.columns = arguments(_asked_for(features, looks))
        self._classes = tf.constant(list(classes), tf.string)

    def predict_examples(self, examples: tf.Tensor) -> Outputs:
        """Predicts serialized tf.Examples."""
        return self._predict(tf.io.parse_example(examples, modalities.spec(self._features)))

    def predict_raw(self, **values: tf.Tensor) -> Outputs:
        """Predicts values as clients have them: for an image, the bytes of its file."""
        return self._predict(self._looked_at(values))

    def extract_raw(self, **values: tf.Tensor) -> Outputs:
        """Returns what the last layer would see."""
        return {"features": self.extractor(modalities.inputs(self._features, self._looked_at(values)), training=False)}

    def _looked_at(self, values: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        found, looks = {self.columns[key]: value for key, value in values.items()}, self._looks
        if looks:
            found[looks.vectors] = looks.network.features(found.pop(looks.image))
        return found

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
    model: keras.Model,
    features: Mapping[str, Feature],
    classes: Sequence[str],
    folder: str,
    fitted: Any = None,
    looks: Looks | None = None,
) -> None:
    """Saves the model with its signatures; without classes its answer is a quantity."""
    served = Served(model, features, classes, fitted, looks)
    asked = _asked_for(features, looks)
    raw = {key: tf.TensorSpec([None], asked[name].dtype, name=key) for key, name in served.columns.items()}
    examples = tf.TensorSpec([None], tf.string, name="examples")
    signatures = {
        "serving_default": tf.function(served.predict_examples).get_concrete_function(examples),
        "raw": tf.function(served.predict_raw).get_concrete_function(**raw),
        "features": tf.function(served.extract_raw).get_concrete_function(**raw),
    }
    if any(hasattr(feature, "slices") for feature in features.values()):
        signatures[SLICES] = tf.function(served.slice_examples).get_concrete_function(examples)
    tf.saved_model.save(served, folder, signatures=signatures)
    if looks:
        (Path(folder) / LOOKED_AT_BY).parent.mkdir(exist_ok=True)
        (Path(folder) / LOOKED_AT_BY).write_text(looks.digest)
    if len(model.inputs) == 1 and len(model.inputs[0].shape) == _IMAGE:
        _save_extractor(served.extractor, Path(folder) / INSIDE)


def arguments(columns: Iterable[str]) -> dict[str, str]:
    """Returns columns by what they are called in a signature: TensorFlow takes letters, digits and _ alone."""
    found: dict[str, str] = {}
    for column in columns:
        plain = re.sub(r"\W", "_", column, flags=re.ASCII)
        wanted = plain if plain[:1].isalpha() else f"column_{plain}"
        numbered = (f"{wanted}_{number}" for number in count(2))
        found[next(name for name in chain([wanted], numbered) if name not in found)] = column
    return found


def _asked_for(features: Mapping[str, Feature], looks: Looks | None) -> dict[str, Any]:
    """Returns how the columns that clients have stand in a record."""
    columns = modalities.spec(features)
    if looks:
        columns[looks.image] = columns.pop(looks.vectors)
    return columns


def _save_extractor(model: keras.Model, path: Path) -> None:
    """Saves what another model can be built on; one that Keras cannot write down is done without."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        model.save(path)
    except (NotImplementedError, TypeError, ValueError) as error:
        path.unlink(missing_ok=True)
        logging.getLogger(__name__).warning("no %s for others to build on: Keras cannot write it: %s", INSIDE, error)
