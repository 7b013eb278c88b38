"""One modality a file. Each is a frozen dataclass with the same methods, and all of them take whole batches.

    stored ─┬─► decode ──────────────┬─► finish ─► the model      evaluation and serving
            └─► augmented ───────────┘                            training
                = decode + augment

spec()                    how it stands in a record
decode(stored)            deterministic, TensorFlow's own ops: what evaluation and serving share, so no skew
augment(decoded, seeds)   random, training only, stateless: the seeds are passed in, two numbers a record
augmented(stored, seeds)  both at once, where that is cheaper than one after the other
finish(decoded)           what the model sees: padded, scaled
keras_input(name)         declares it

slices(name, decoded)     what an evaluation looks at apart, if there is such a thing: how long a text is

`from_columns(columns, fitted, settings, data)` of each file makes the features of a Task's part.
What is in a batch of stored values is a tensor of one entry a record, or a dictionary of such if `spec` returns one.
"""

from collections.abc import Mapping
from typing import Any, Protocol


class DataShape(Protocol):
    """What a feature may take from the data; ingest's account has it."""

    @property
    def median_side(self) -> int:
        """Shorter side of a image in pixels."""


class Fitted(Protocol):
    """What Transform has fitted (`components.fitting.fitted`)."""

    def apply(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the fitted graph makes of some raw columns."""


class Feature(Protocol):
    """A modality."""

    @property
    def is_ragged(self) -> bool:
        """Whether decoded records differ in length, so that those of like length belong into one batch."""

    @property
    def is_costly(self) -> bool:
        """Whether decoding takes far longer than parsing, so that it is done a batch at a time and no more."""

    @property
    def decoded_bytes(self) -> int:
        """Memory of one decoded record, at most."""

    def spec(self) -> Any:
        """Returns how it stands in a record: one of tf.io's features, or several by name."""

    def decode(self, stored: Any) -> Any:
        """Returns what a batch holds, the same every time."""

    def augment(self, decoded: Any, seeds: Any) -> Any:
        """Returns a random variation of a decoded batch."""

    def augmented(self, stored: Any, seeds: Any) -> Any:
        """Returns a random variation of a stored batch."""

    def finish(self, decoded: Any) -> Any:
        """Returns what the model sees."""

    def keras_input(self, name: str) -> Any:
        """Declares the model's input."""


class Ragged(Feature, Protocol):
    """A modality whose records differ in length."""

    def widths(self, longest: Any) -> Any:
        """Returns how wide batches are whose longest records have these lengths, int64 [k]."""


class Unvaried:
    """The part of a modality that knows no random variation."""

    is_ragged = False
    is_costly = False

    def decode(self, stored: Any) -> Any:
        """Returns the batch as it is stored."""
        return stored

    def augment(self, decoded: Any, seeds: Any) -> Any:
        """Changes nothing."""
        del seeds
        return decoded

    def augmented(self, stored: Any, seeds: Any) -> Any:
        """Decodes, and changes nothing."""
        del seeds
        return self.decode(stored)

    def finish(self, decoded: Any) -> Any:
        """Changes nothing."""
        return decoded


def spec(features: Mapping[str, Feature]) -> dict[str, Any]:
    """Returns all columns that the features stand in, by name."""
    columns: dict[str, Any] = {}
    for key, feature in features.items():
        wanted = feature.spec()
        columns.update(wanted if isinstance(wanted, Mapping) else {key: wanted})
    return columns


def stored(columns: Mapping[str, Any], key: str, feature: Feature) -> Any:
    """Returns what one feature has in a parsed batch."""
    wanted = feature.spec()
    return {name: columns[name] for name in wanted} if isinstance(wanted, Mapping) else columns[key]


def named(key: str, value: Any) -> dict[str, Any]:
    """Returns the model's inputs of one feature: one of its name, or several of compound names."""
    if isinstance(value, Mapping):
        return {f"{key}_{name}": part for name, part in value.items()}
    return {key: value}


def inputs(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the model sees of a parsed batch, in evaluation and in serving."""
    found: dict[str, Any] = {}
    for key, feature in features.items():
        found |= named(key, feature.finish(feature.decode(stored(columns, key, feature))))
    return found


def slices(features: Mapping[str, Feature], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns by what the records of a parsed batch can be looked at apart: one string a record each."""
    found: dict[str, Any] = {}
    for key, feature in features.items():
        if hasattr(feature, "slices"):
            found |= feature.slices(key, feature.decode(stored(columns, key, feature)))
    return found


def keras_inputs(features: Mapping[str, Feature]) -> dict[str, Any]:
    """Declares all inputs of a model."""
    declared: dict[str, Any] = {}
    for key, feature in features.items():
        declared |= named(key, feature.keras_input(key.replace("/", "_")))  # Keras has a meaning of its own for it
    return declared
