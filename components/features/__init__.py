"""Features: one modality per file. Each is a frozen dataclass with the same methods, which take whole batches.

    stored ─┬─► decode ──────────────┬─► finish ─► the model      evaluation and serving
            └─► augmented ───────────┘                            training
                = decode + augment

spec()                    the tf.io features of its columns
decode(stored)            deterministic, by TensorFlow's own ops: shared by evaluation and serving, so there is no skew
augment(decoded, seeds)   random, in training only, stateless: two seed numbers per record are passed in
augmented(stored, seeds)  decode and augment at once, if that is cheaper than one after the other
finish(decoded)           what the model sees: padded, scaled
keras_input(name)         declares the model's input

slices(name, decoded)     optional: strings by which the Evaluator slices metrics, such as the length of a text

`from_columns(columns, fitted, settings, data)` of each file returns the features of a Task's part.
A batch of stored values is a tensor with one entry per record, or a dict of such tensors if `spec` returns a dict.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from components.records.roles import Column


class DataShape(Protocol):
    """What a feature may take from the data; the manifest has it."""

    @property
    def median_side(self) -> int:
        """Median of the images' shorter side in pixels."""


class FittedGraph(Protocol):
    """What Transform has fitted, for features and models (`components.fitting.fitted`)."""

    def apply(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Applies the fitted graph to some raw columns."""

    def tokens(self, place: int) -> list[Any]:
        """Returns the tokens of a text column in the order of their ids; out-of-vocabulary buckets are tuples."""

    def categories(self, columns: Sequence[Column]) -> dict[str, list[tuple[Any, ...]]]:
        """Returns the value of each id, by category column, in order of the ids."""

    def pretrained_model(self) -> tuple[Any, bool] | None:
        """Returns the pretrained image model and whether it is fine-tuned; None if there is none."""

    def moments(self, column: Column) -> tuple[Any, Any] | None:
        """Returns mean and variance of a tensor column; None if they were not fitted."""


class Feature(Protocol):
    """One modality."""

    @property
    def is_ragged(self) -> bool:
        """Whether decoded records differ in length, so that batches are made of similar lengths.

        Such a feature also has `widths(longest)`: the widths of batches by the lengths of their longest records.
        """

    @property
    def is_costly(self) -> bool:
        """Whether decoding takes far longer than parsing, so that it is done batch by batch."""

    @property
    def decoded_bytes(self) -> int:
        """Maximum memory of one decoded record."""

    def spec(self) -> Any:
        """Returns its tf.io feature, or a dict of several by column."""

    def decode(self, stored: Any) -> Any:
        """Decodes a batch, deterministically."""

    def augment(self, decoded: Any, seeds: Any) -> Any:
        """Augments a decoded batch."""

    def augmented(self, stored: Any, seeds: Any) -> Any:
        """Decodes and augments a stored batch."""

    def finish(self, decoded: Any) -> Any:
        """Returns what the model sees."""

    def keras_input(self, name: str) -> Any:
        """Declares the model's input."""


class NotAugmented:
    """Base of features without augmentation; by default a record is stored as the model sees it."""

    is_ragged = False
    is_costly = False

    def decode(self, stored: Any) -> Any:
        """Returns the batch unchanged."""
        return stored

    def augment(self, decoded: Any, seeds: Any) -> Any:
        """Returns the batch unchanged."""
        del seeds
        return decoded

    def augmented(self, stored: Any, seeds: Any) -> Any:
        """Decodes without augmentation."""
        del seeds
        return self.decode(stored)

    def finish(self, decoded: Any) -> Any:
        """Returns the batch unchanged."""
        return decoded


def spec(features: Mapping[str, Feature]) -> dict[str, Any]:
    """Returns the tf.io features of all columns."""
    columns: dict[str, Any] = {}
    for key, feature in features.items():
        wanted = feature.spec()
        columns.update(wanted if isinstance(wanted, Mapping) else {key: wanted})
    return columns


def stored(columns: Mapping[str, Any], key: str, feature: Feature) -> Any:
    """Returns the stored values of one feature from a parsed batch."""
    wanted = feature.spec()
    return {name: columns[name] for name in wanted} if isinstance(wanted, Mapping) else columns[key]


def named(key: str, value: Any) -> dict[str, Any]:
    """Returns the model inputs of one feature: one with its name, or several with compound names."""
    if isinstance(value, Mapping):
        return {f"{key}_{name}": part for name, part in value.items()}
    return {key: value}


def inputs(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the model inputs of a parsed batch, for evaluation and serving."""
    found: dict[str, Any] = {}
    for key, feature in features.items():
        found |= named(key, feature.finish(feature.decode(stored(columns, key, feature))))
    return found


def slices(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the strings by which the Evaluator slices a parsed batch, one per record each."""
    found: dict[str, Any] = {}
    for key, feature in features.items():
        if hasattr(feature, "slices"):
            found |= feature.slices(key, feature.decode(stored(columns, key, feature)))
    return found


def keras_inputs(features: Mapping[str, Feature]) -> dict[str, Any]:
    """Declares all inputs of a model."""
    declared: dict[str, Any] = {}
    for key, feature in features.items():
        declared |= named(key, feature.keras_input(key.replace("/", "_")))  # "/" is reserved in Keras names
    return declared
